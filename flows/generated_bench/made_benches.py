"""Benchmarks made on demand, whose items are screened and decided on like conversations, and their audits."""

from collections.abc import Iterator
from datetime import UTC, datetime

from flows.running.checked_flow import flow, one_writer
from flows.stages import decide, screen
from schemas.benches.generated_results import AuditMode
from schemas.policy import GeneratedRule
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.generated_bench.steps import ask_again, check_images, draw_images, sort_errors, write_questions, write_texts
from tasks.ingest.steps import take_in_drawings, take_in_items
from tasks.policy.policy_file import load_policy
from tasks.providers import Providers
from tasks.providers.asked_models import to_ask
from tasks.signals.run import MeasuringObserver
from tasks.storage.tables import Store


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
