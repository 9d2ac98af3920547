"""Signals and a policy -> decisions, and redacted texts and images."""

from collections.abc import Iterator

from flows.products import item_findings
from flows.running.checked_flow import flow
from flows.running.one_writer import one_writer
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.policy.policy_file import load_policy
from tasks.policy.redact import ROUNDS
from tasks.policy.rules import describes
from tasks.policy.steps import decide_items, find_near_images, redact_items
from tasks.providers import Providers
from tasks.signals.steps import measure_redacted, signal_versions


@flow(name="decide")
@one_writer
def decide(settings: Settings) -> Iterator[StageReport]:
    """Keep or drop every conversation and battle, with all reasons. Redacted items are measured again as a check."""
    providers = Providers(settings.providers)
    versions = signal_versions(providers)
    yield find_near_images(settings, versions)
    for _ in range(ROUNDS):
        yield redact_items(settings, versions, item_findings)
        yield (measured := measure_redacted(settings, providers))
        if not measured.model_calls:
            break
    yield decide_items(settings, versions, item_findings)


@flow(name="decide-described")
@one_writer
def decide_described(settings: Settings) -> Iterator[StageReport]:
    """Decide again after `describe`, if the policy has rules about what that measures; before, they drop everything."""
    if any(describes(rule) for rule in load_policy(settings.policy).rules):
        versions = signal_versions(Providers(settings.providers))
        yield decide_items(settings, versions, item_findings, "decide_described")
