"""The stages from raw logs to decisions: what is read, measured, kept and dropped."""

from collections.abc import Iterator
from datetime import UTC, datetime

from flows.products import item_findings
from flows.running.checked_flow import flow, one_writer
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.bench.steps import find_known, index_benchmarks
from tasks.ingest.steps import assemble, read_log_lines, take_in_images
from tasks.policy.policy_file import load_policy
from tasks.policy.redact import REDACTION_ROUNDS
from tasks.policy.rules import describes
from tasks.policy.steps import decide_items, find_near_images, redact_items
from tasks.providers import Providers
from tasks.signals.run import MeasuringObserver
from tasks.signals.steps import catch_up_images, measure_documents, measure_redacted, measure_texts, signal_versions
from tasks.storage.tables import Store
from tasks.takedown.steps import finish_takedowns, forget_requested, withdraw_known_images


@flow(name="ingest")
@one_writer
def ingest(settings: Settings) -> Iterator[StageReport]:
    """Read the logs and the images. Each image is decoded once, for its content id and its signals.

    Nothing is sent to a paid service; `screen` asks those for what images lack.
    """
    providers = Providers(settings.providers)
    observer = MeasuringObserver(Store.open(settings.store), providers, datetime.now(UTC), free_only=True)
    yield from forget_requested(settings)  # first, so that no line of it is kept
    yield read_log_lines(settings)
    yield take_in_images(settings, observer)
    yield assemble(settings)
    yield withdraw_known_images(settings)
    yield from finish_takedowns(settings)


@flow(name="screen")
@one_writer
def screen(settings: Settings) -> Iterator[StageReport]:
    """Signals of all items, which policy rules use."""
    providers = Providers(settings.providers)
    yield catch_up_images(settings, providers)
    yield measure_texts(settings, providers, "screen_texts", kept_only=False)


@flow(name="describe")
@one_writer
def describe(settings: Settings) -> Iterator[StageReport]:
    """Signals of kept items only, such as tags and categories."""
    providers = Providers(settings.providers)
    yield measure_texts(settings, providers, "describe_texts", kept_only=True)
    yield measure_documents(settings, providers)


@flow(name="measure")
@one_writer
def measure(settings: Settings) -> Iterator[StageReport]:
    """Signals of all items and, after `decide`, of kept items."""
    yield from screen(settings)
    yield from describe(settings)


@flow(name="decide")
@one_writer
def decide(settings: Settings) -> Iterator[StageReport]:
    """Keep or drop every conversation and battle, with all reasons. Redacted items are measured again as a check."""
    providers = Providers(settings.providers)
    versions = signal_versions(providers)
    yield find_near_images(settings, versions)
    yield from compared_with_benchmarks(settings)
    for _ in range(REDACTION_ROUNDS):
        yield redact_items(settings, versions, item_findings)
        yield (measured := measure_redacted(settings, providers))
        if not measured.model_calls:
            break
    yield decide_items(settings, versions, item_findings)


def compared_with_benchmarks(settings: Settings) -> Iterator[StageReport]:
    """Bring the index of known benchmarks up to date and look for it in chats; nothing where none is or was named."""
    if not (settings.known_benchmarks or Store.open(settings.store).height("known_sources")):
        return
    providers = Providers(settings.providers)
    versions = signal_versions(providers)
    yield index_benchmarks(settings, providers, versions)
    yield find_known(settings, versions)


@flow(name="decide-described")
@one_writer
def decide_described(settings: Settings) -> Iterator[StageReport]:
    """Decide again after `describe`, if the policy has rules about what that measures; before, they drop everything."""
    if any(describes(rule) for rule in load_policy(settings.policy).rules):
        versions = signal_versions(Providers(settings.providers))
        yield decide_items(settings, versions, item_findings, "decide_described")
