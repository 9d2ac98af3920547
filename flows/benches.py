"""Items of benchmarks that people write or that are made on demand: screened and decided on like conversations."""

from collections.abc import Iterator
from datetime import UTC, datetime

from flows.before_work import writer_of
from flows.products import item_images
from flows.running.checked_flow import flow, one_writer
from flows.stages import decide, decide_described, describe, ingest, screen
from schemas.benches.generated_results import AuditMode
from schemas.policy import GeneratedRule
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.generated_bench.steps import ask_again, check_images, draw_images, sort_errors, write_questions, write_texts
from tasks.ingest.steps import take_in_drawings, take_in_items
from tasks.judging.sources import to_ask
from tasks.policy.policy_file import load_policy
from tasks.providers import Providers
from tasks.signals.run import MeasuringObserver
from tasks.signals.steps import measure_item_images, signal_versions
from tasks.storage.tables import Store
from tasks.written_bench.steps import write_missing


@flow(name="take-in-items")
@one_writer
def take_in_written(settings: Settings) -> Iterator[StageReport]:
    """Read the rows of one file of items, which `logs` names, and screen what they say and show."""
    yield from ingest(settings)
    yield from screen(settings)


@flow(name="decide-items")
@one_writer
def decide_written(settings: Settings) -> Iterator[StageReport]:
    """Decide on all items, once their findings are stored, and describe what is kept."""
    yield from decide(settings)
    yield from describe(settings)
    yield measure_item_images(settings, Providers(settings.providers), item_images(Store.open(settings.store)))
    yield from decide_described(settings)


@flow(name="write-items")
@one_writer
def write_items(settings: Settings) -> Iterator[StageReport]:
    """Write the captions and references that kept items lack."""
    providers = Providers(settings.providers)
    yield write_missing(settings, writer_of(settings), signal_versions(providers))
    shown = item_images(Store.open(settings.store), settings.written.name)
    yield measure_item_images(settings, providers, shown)


@flow(name="generate")
@one_writer
def generate(settings: Settings) -> Iterator[StageReport]:
    """Make a benchmark. What is there already is not made again, and no image is paid twice."""
    providers, rule = Providers(settings.providers), load_policy(settings.policy).generated or GeneratedRule()
    yield write_texts(settings, providers)
    for _ in range(rule.redraws_max + 1):
        yield (drawn := draw_images(settings, providers, rule))
        observer = MeasuringObserver(Store.open(settings.store), providers, datetime.now(UTC))
        yield take_in_drawings(settings, observer)
        yield check_images(settings, providers, rule)
        if not drawn.counts:
            break
    yield write_questions(settings, providers, rule)
    yield take_in_items(settings)
    yield from screen(settings)
    yield from decide(settings)


@flow(name="audit")
@one_writer
def audit(settings: Settings) -> Iterator[StageReport]:
    """Ask the items of a benchmark again in other ways, or with a judge sort the wrong answers to them."""
    modes = [AuditMode(mode) for mode in settings.evaluate.audit_modes]
    if settings.evaluate.judge:
        yield sort_errors(settings, to_ask(settings), datetime.now(UTC))
    else:
        yield ask_again(settings, to_ask(settings), modes)
