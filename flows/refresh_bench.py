"""The tables as they are -> new topics, a new benchmark, and a release of both."""

from prefect import flow

from flows.one_writer import one_writer
from flows.release import release
from flows.sample import sample
from schemas.run import StageReport
from schemas.settings import Settings


@flow(name="refresh-bench")
@one_writer
def refresh_bench(settings: Settings) -> list[StageReport]:
    """Draw again, with the settings' seed and size. Nothing is read or measured."""
    return [*sample(settings), *release(settings)]
