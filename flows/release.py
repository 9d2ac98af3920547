"""Decisions and topics -> leaderboards, and a release on disk."""

from collections.abc import Iterator

from flows.checked_flow import flow
from flows.one_writer import one_writer
from flows.run_names import run_name
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.leaderboard.steps import rate_models
from tasks.policy.steps import watch_drift
from tasks.providers import Providers
from tasks.release.steps import build_release, seal_release, watch_failures
from tasks.report.steps import report_release
from tasks.signals.steps import signal_versions


@flow(name="release", flow_run_name=run_name)
@one_writer
def release(settings: Settings) -> Iterator[StageReport]:
    """Build, rate its battles, report on, seal and write a release.

    Raises ProviderHeld when a chosen provider failed, and DriftHeld when a drop share differs from earlier runs.
    """
    yield watch_failures(settings)
    yield watch_drift(settings)
    providers = Providers(settings.providers)
    versions = signal_versions(providers)
    built = build_release(settings, versions)
    yield rate_models(settings, versions, built.staging)
    yield report_release(settings, providers, versions, built.staging)
    yield seal_release(settings, providers, versions, built)
