"""Kept prompts -> topics and the benchmark."""

from collections.abc import Iterator

from flows.running.checked_flow import flow
from flows.running.one_writer import one_writer
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.bench.steps import draw_bench, find_failures
from tasks.providers import Providers
from tasks.signals.steps import measure_failures, signal_versions
from tasks.topics.steps import find_topics


@flow(name="sample")
@one_writer
def sample(settings: Settings) -> Iterator[StageReport]:
    """Find the topics of kept prompts, draw the benchmark from them, and find the prompts that models fail."""
    providers = Providers(settings.providers)
    versions = signal_versions(providers)
    yield find_topics(settings, providers, versions)
    yield draw_bench(settings, versions)
    yield find_failures(settings, versions)
    if "failure_types" in providers.names:
        yield measure_failures(settings, providers)
        yield find_failures(settings, versions)  # with what the tagger says of them


@flow(name="bench")
@one_writer
def bench(settings: Settings) -> Iterator[StageReport]:
    """Draw a new benchmark from the existing topics."""
    yield draw_bench(settings, signal_versions(Providers(settings.providers)))
