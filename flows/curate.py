"""The whole pipeline. Each stage is a flow of its own and can also be run alone."""

from collections.abc import Iterator

from flows.release import release, sample, unchanged
from flows.running.checked_flow import flow, one_writer
from flows.running.costs import asked_services, within_limits
from flows.running.night import canaries, keep_only, services_answer
from flows.stages import compared_with_benchmarks, decide, decide_described, describe, ingest, screen
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.ingest.shrunk import require_whole
from tasks.storage.records import left_for_later
from tasks.storage.tables import Store


@flow(name="curate")
@one_writer
def curate(settings: Settings) -> Iterator[StageReport]:
    """Raw logs -> a release. Reports each stage as it ends; the last one names the release."""
    yield from newly_read(settings)
    store = Store.open(settings.store)
    if not settings.redraw and not left_for_later(store) and (kept := unchanged(settings)):
        require_whole(store)
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
    """Raw logs -> conversations, battles and images, with their free signals.

    A run that asks paid services reads first, says what it will cost, and is held when that is too much. Only then is
    anything sent: a first call to each service, and probes.
    """
    paid = bool(asked_services(settings))
    if not paid:
        yield from canaries(settings)  # planted probes; one that is not caught ends the run
    yield from ingest(settings)  # log lines and images; each image is decoded once for its id and its signals
    yield from compared_with_benchmarks(settings)  # here too, because a changed benchmark is a reason for a new release
    if paid:
        yield from within_limits(settings)
        yield from services_answer(settings)  # of a deployment: a refused key ends the night before it measures
        yield from canaries(settings)


def decided_and_drawn(settings: Settings) -> Iterator[StageReport]:
    """The stages from conversations to the benchmark."""
    settings = settings.model_copy(update={"since": None, "until": None})  # what earlier runs left is caught up
    yield from screen(settings)  # signals of every text, for policy rules
    yield from decide(settings)  # keep or drop, with all reasons
    yield from describe(settings)  # signals of kept texts: code, refusals, tags and so on
    yield from decide_described(settings)  # rules about those
    yield from sample(settings)  # topics and the benchmark
