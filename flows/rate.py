"""Kept battles -> leaderboards."""

from collections.abc import Iterator

from flows.running.checked_flow import flow
from flows.running.one_writer import one_writer
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.leaderboard.steps import rate_models
from tasks.providers import Providers
from tasks.signals.steps import signal_versions


@flow(name="rate")
@one_writer
def rate(settings: Settings) -> Iterator[StageReport]:
    """Bradley-Terry ratings with 95 % intervals, per slice and under style control."""
    yield rate_models(settings, signal_versions(Providers(settings.providers)))
