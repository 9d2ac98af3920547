"""Existing tables -> topics, a new benchmark, and a release with both."""

from collections.abc import Iterator

from flows.release import release
from flows.running.checked_flow import flow
from flows.running.one_writer import one_writer
from flows.sample import sample
from schemas.run import StageReport
from schemas.settings import Settings


@flow(name="refresh-bench")
@one_writer
def refresh_bench(settings: Settings) -> Iterator[StageReport]:
    """Find topics and draw the benchmark with the settings' seed and size. Nothing is read or measured."""
    yield from sample(settings)
    yield from release(settings)
