"""Prefect tasks of takedown."""

from datetime import UTC, datetime

from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.run import StageReport
from schemas.settings import Settings
from tasks.runtime.timing import timed
from tasks.storage.tables import Store
from tasks.storage.tombstones import UNFINISHED
from tasks.takedown.releases import withdraw_known
from tasks.takedown.take_down import finish


def finish_takedowns(settings: Settings) -> list[StageReport]:
    """Finish a takedown that was killed, or that new lines extended. Reports nothing when there is none."""
    return [] if Store.open(settings.store).read_bytes(UNFINISHED) is None else [finish_unfinished(settings)]


@task(cache_policy=NO_CACHE)
@timed
def finish_unfinished(settings: Settings) -> StageReport:
    """Counts of removed rows by table."""
    return StageReport(stage="takedown", counts=finish(Store.open(settings.store), datetime.now(UTC)))


@task(cache_policy=NO_CACHE)
@timed
def withdraw_known_images(settings: Settings) -> StageReport:
    """Withdraw releases with images that a hash list has named since they were built."""
    return StageReport(
        stage="withdraw_known", counts={"releases_withdrawn": len(withdraw_known(Store.open(settings.store)))}
    )
