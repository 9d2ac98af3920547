"""The run of a demo arena: a release with a judge's board of its invented models."""

from collections.abc import Iterator

from flows.curate import until_drawn
from flows.judging.evaluate import answer, compare
from flows.release import release
from flows.running.checked_flow import flow, one_writer
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.demo.steps import write_answer_files


@flow(name="demo")
@one_writer
def demo(settings: Settings) -> Iterator[StageReport]:
    """Stages of `curate run` on a demo arena, with those of `curate judge answer` and `compare` before the release."""
    yield from until_drawn(settings)
    yield (written := write_answer_files(settings))
    if written.counts["prompts"]:
        yield from answer(settings)
        yield from compare(settings)
    yield from release(settings)
