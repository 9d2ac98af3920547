"""The Prefect skin of takedown."""

from datetime import UTC, datetime

from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.run import StageReport
from schemas.settings import Settings
from tasks.tables import Store
from tasks.takedown.take_down import finish
from tasks.timing import timed
from tasks.tombstones import UNFINISHED


def finish_takedowns(settings: Settings) -> list[StageReport]:
    """Finish what a killed takedown left, or what new lines joined to it; a store without any costs nothing."""
    return [] if Store.open(settings.store).read_bytes(UNFINISHED) is None else [finish_unfinished(settings)]


@task(cache_policy=NO_CACHE)
@timed
def finish_unfinished(settings: Settings) -> StageReport:
    """Rows that went, by table."""
    return StageReport(stage="takedown", counts=finish(Store.open(settings.store), datetime.now(UTC)))
