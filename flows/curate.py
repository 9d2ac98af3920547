"""The whole pipeline. Each stage is a flow of its own and can also be run alone."""

from collections.abc import Iterator

from flows.release import release, sample, unchanged
from flows.running.checked_flow import flow, one_writer
from flows.running.night import canaries, keep_only, services_answer
from flows.stages import decide, decide_described, describe, ingest, screen
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.ingest.shrunk import require_whole
from tasks.storage.tables import Store


@flow(name="curate")
@one_writer
def curate(settings: Settings) -> Iterator[StageReport]:
    """Raw logs -> a release. Reports each stage as it ends; the last one names the release."""
    yield from services_answer(settings)  # of a deployment: a refused key ends the night before it begins
    yield from newly_read(settings)
    if not settings.redraw and (kept := unchanged(settings)):
        require_whole(Store.open(settings.store))
        yield kept  # nothing is new, so every later stage would write what is there
    else:
        yield from decided_and_drawn(settings)
        yield from release(settings)  # leaderboards, report, card
    keep_only(settings)


def until_drawn(settings: Settings) -> Iterator[StageReport]:
    """The stages from raw logs to the benchmark."""
    yield from newly_read(settings)
    yield from decided_and_drawn(settings)


def newly_read(settings: Settings) -> Iterator[StageReport]:
    """Raw logs -> conversations, battles and measured images."""
    yield from canaries(settings)  # planted probes; one that is not caught ends the run
    yield from ingest(settings)  # log lines and images; each image is decoded once for its id and its signals


def decided_and_drawn(settings: Settings) -> Iterator[StageReport]:
    """The stages from conversations to the benchmark."""
    settings = settings.model_copy(update={"since": None, "until": None})  # what earlier runs left is caught up
    yield from screen(settings)  # signals of every text, for policy rules
    yield from decide(settings)  # keep or drop, with all reasons
    yield from describe(settings)  # signals of kept texts: code, refusals, tags and so on
    yield from decide_described(settings)  # rules about those
    yield from sample(settings)  # topics and the benchmark
