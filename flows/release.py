"""The stages from decisions to a release: topics and benchmark, leaderboards, report, files."""

from collections.abc import Iterator

from flows.products import (
    item_ids,
    judge_stand_ins,
    judge_texts,
    left_out_items,
    parts_of_store,
    rate_items,
    report_sections,
    validation_texts,
)
from flows.running.checked_flow import flow, one_writer
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.bench.steps import draw_bench, find_failures
from tasks.ingest.shrunk import require_whole
from tasks.leaderboard.steps import rate_models
from tasks.policy.answers import signals_of_answers
from tasks.policy.policy_file import load_policy
from tasks.policy.redact import REDACTION_ROUNDS
from tasks.policy.steps import screen_answers, watch_drift
from tasks.providers import Providers
from tasks.release.registered import is_benchmark_alone
from tasks.release.steps import build_release, check_providers, seal_release, unchanged_release
from tasks.report.steps import report_release
from tasks.signals.steps import measure_answers, measure_failures, measure_written, signal_versions
from tasks.storage.queries.failures import texts_of_cases
from tasks.storage.queries.released import decided_policy
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store
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
    yield measure_cases(settings, providers)


def measure_cases(settings: Settings, providers: Providers) -> StageReport:
    """Measure refusals, and all that the policy asks, of the texts of cases that no conversation holds."""
    store, versions = Store.open(settings.store), signal_versions(providers)
    policy = decided_policy(store)
    names = dict.fromkeys(["refusal", *(signals_of_answers(policy, versions) if policy else [])])
    return measure_answers(settings, providers, [*names], texts_of_cases(store))


@flow(name="bench")
@one_writer
def bench(settings: Settings) -> Iterator[StageReport]:
    """Draw a new benchmark from the existing topics."""
    yield draw_bench(settings, signal_versions(Providers(settings.providers)))


@flow(name="rate")
@one_writer
def rate(settings: Settings) -> Iterator[StageReport]:
    """Bradley-Terry ratings with 95 % intervals, per slice and under style control."""
    yield rate_models(settings, signal_versions(Providers(settings.providers)))


@flow(name="release")
@one_writer
def release(settings: Settings) -> Iterator[StageReport]:
    """Build, rate its battles and what a judge said, report on, seal and write a release.

    When nothing that it is made from has changed, the last one stays.

    Raises LogsHeld when a log file lost lines, ProviderHeld when a chosen provider failed, and DriftHeld when a drop
    share differs from earlier runs.
    """
    require_whole(Store.open(settings.store))
    yield check_providers(settings)
    yield watch_drift(settings)
    providers = Providers(settings.providers)
    versions = signal_versions(providers)
    store = Store.open(settings.store)
    if kept := unchanged(settings):
        yield kept
        return
    built = build_release(settings, versions, item_ids(store), left_out_items(store))
    yield rate_models(settings, versions, built.staging)
    yield from rate_items(settings, versions, built.staging)
    if settings.with_answers:
        yield from _screened_answers(settings, providers, versions)
    if store.parts("captions"):
        yield measure_written(settings, providers, validation_texts(store))
    alone, of_judges = is_benchmark_alone(built.staging), judge_stand_ins(store)
    yield report_release(settings, providers, built.staging, built.tallies, report_sections, of_judges, alone)
    yield seal_release(settings, providers, versions, built, parts_of_store(store))


def unchanged(settings: Settings) -> StageReport | None:
    """The last release, if nothing has changed that it is made from; None when it is to be made anew.

    It is made anew where texts are measured for it, so that what failed is tried again.
    """
    store = Store.open(settings.store)
    if settings.with_answers or store.parts("captions") or decided_policy(store) != load_policy(settings.policy):
        return None
    return unchanged_release(settings, signal_versions(Providers(settings.providers)))


def _screened_answers(settings: Settings, providers: Providers, versions: Versions) -> Iterator[StageReport]:
    """Measure answers and verdicts and apply the policy to them; what it redacts is measured again as a check."""
    store = Store.open(settings.store)
    policy, texts = decided_policy(store), judge_texts(store)
    names = signals_of_answers(policy, versions) if policy else []
    yield measure_answers(settings, providers, names, texts["text"])
    for _ in range(REDACTION_ROUNDS):
        yield screen_answers(settings, versions, texts)
        yield (measured := measure_answers(settings, providers, names, texts["text"]))
        if not measured.model_calls:
            return
    yield screen_answers(settings, versions, texts)


@flow(name="refresh-bench")
@one_writer
def refresh_bench(settings: Settings) -> Iterator[StageReport]:
    """Find topics and draw the benchmark as a new store would. Nothing is read or measured."""
    settings = settings.model_copy(update={"redraw": True})
    yield from sample(settings)
    yield from release(settings)
