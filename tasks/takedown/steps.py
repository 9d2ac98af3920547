"""Prefect tasks of takedown."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from schemas.run import StageReport
from schemas.settings import Settings
from tasks.runtime.progress import tell
from tasks.runtime.steps import step
from tasks.storage.keyed_ids import UNFINISHED
from tasks.storage.tables import Store
from tasks.takedown.releases import withdraw_known
from tasks.takedown.take_down import export_lines, finish, left_lines, release_lines, requested, take_down_requested

_REQUESTS = "takedown_requests"


def forget_requested(settings: Settings) -> list[StageReport]:
    """Take down what visitors asked the arena to forget. Reports nothing when nobody asked."""
    return [apply_requests(settings)] if settings.logs and requested(Path(settings.logs)) else []


@step
def apply_requests(settings: Settings) -> StageReport:
    """Counts of requests, of new ones, and of removed rows by table; notes on releases that held something of it."""
    store, conv_ids = Store.open(settings.store), requested(Path(settings.logs or ""))

    def hear(*remains: Any) -> None:
        for line in left_lines(settings.store, *remains):
            tell(line)

    new, removed = take_down_requested(store, conv_ids, datetime.now(UTC), hear)
    counts = {"requests": len(conv_ids), "new": new}
    if removed is None:
        return StageReport(stage=_REQUESTS, counts=counts)
    for line in export_lines(removed, settings.store):
        tell(line)
    notes = list(release_lines(removed, "STORE"))  # run records have no paths
    if removed.earlier_versions:
        notes.append(f"the bucket may keep earlier versions of what went ({removed.earlier_versions})")
    return StageReport(stage=_REQUESTS, counts=counts | removed.rows, notes=notes)


def finish_takedowns(settings: Settings) -> list[StageReport]:
    """Finish a takedown that was killed, or that new lines extended. Reports nothing when there is none."""
    return [] if Store.open(settings.store).read_bytes(UNFINISHED) is None else [finish_unfinished(settings)]


@step
def finish_unfinished(settings: Settings) -> StageReport:
    """Counts of removed rows by table."""
    return StageReport(stage="takedown", counts=finish(Store.open(settings.store), datetime.now(UTC)))


@step
def withdraw_known_images(settings: Settings) -> StageReport:
    """Withdraw releases with images that a hash list has named since they were built."""
    return StageReport(
        stage="withdraw_known", counts={"releases_withdrawn": len(withdraw_known(Store.open(settings.store)))}
    )
