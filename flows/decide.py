"""Signals and a policy -> decisions, and what is redacted."""

from prefect import flow

from flows.one_writer import one_writer
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.decide.redact import ROUNDS
from tasks.decide.steps import decide_items, find_near_pictures, redact_items
from tasks.measure.steps import measure_redacted, signal_versions
from tasks.providers import Providers


@flow(name="decide")
@one_writer
def decide(settings: Settings) -> list[StageReport]:
    """Keep or drop every conversation and battle, with every reason. What is redacted is measured again, as proof."""
    providers = Providers(settings.providers)
    versions = signal_versions(providers)
    reports = [find_near_pictures(settings, versions)]
    for _ in range(ROUNDS):
        reports += [redact_items(settings, versions), measure_redacted(settings, providers)]
        if not reports[-1].model_calls:
            break
    return [*reports, decide_items(settings, versions)]
