"""Decisions and topics -> leaderboards, and a release on disk."""

from collections.abc import Iterator

from flows.checked_flow import flow
from flows.one_writer import one_writer
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.leaderboard.steps import rate_models
from tasks.policy.answers import signals_of_answers
from tasks.policy.redact import ROUNDS
from tasks.policy.steps import screen_answers, watch_drift
from tasks.providers import Providers
from tasks.release.steps import build_release, check_providers, seal_release
from tasks.report.steps import report_release
from tasks.signals.steps import measure_answers, measure_written, signal_versions
from tasks.storage.queries.released import decided_policy
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store


@flow(name="release")
@one_writer
def release(settings: Settings) -> Iterator[StageReport]:
    """Build, rate its battles and what a judge said, report on, seal and write a release.

    Raises ProviderHeld when a chosen provider failed, and DriftHeld when a drop share differs from earlier runs.
    """
    yield check_providers(settings)
    yield watch_drift(settings)
    providers = Providers(settings.providers)
    versions = signal_versions(providers)
    built = build_release(settings, versions)
    yield rate_models(settings, versions, built.staging)
    store = Store.open(settings.store)
    judged = settings.judge_version or store.parts("verdicts") or store.parts("judge_ratings")
    if judged:  # without a judge nothing of judging is loaded
        from tasks.evaluate.steps import rate_judged

        yield rate_judged(settings, versions, built.staging)
    if settings.with_answers:
        yield from _screened_answers(settings, providers, versions)
    if store.parts("captions"):
        yield measure_written(settings, providers)
    yield report_release(settings, providers, versions, built.staging)
    yield seal_release(settings, providers, versions, built)


def _screened_answers(settings: Settings, providers: Providers, versions: Versions) -> Iterator[StageReport]:
    """Measure answers and verdicts and apply the policy to them; what it redacts is measured again as a check."""
    policy = decided_policy(Store.open(settings.store))
    names = signals_of_answers(policy, versions) if policy else []
    yield measure_answers(settings, providers, names)
    for _ in range(ROUNDS):
        yield screen_answers(settings, versions)
        yield (measured := measure_answers(settings, providers, names))
        if not measured.model_calls:
            return
    yield screen_answers(settings, versions)
