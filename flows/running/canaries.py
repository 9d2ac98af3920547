"""Planted probes run through the same stages, in their own store, before anything is released."""

import tempfile
import time
from collections import Counter
from pathlib import Path

from prefect import Flow, tags

from flows.decide import decide
from flows.ingest import ingest
from flows.measure import screen
from flows.running.checked_flow import flow
from schemas.errors import CanaryEscaped
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.policy.canaries import escaped, plant, probes
from tasks.policy.policy_file import load_policy
from tasks.storage.lock import writing
from tasks.storage.tables import Store


@flow(name="canaries")
def canaries(settings: Settings) -> list[StageReport]:
    """Plant, measure and decide the probes. Raises CanaryEscaped when the policy does not catch one."""
    started, planted = time.monotonic(), probes()
    with tempfile.TemporaryDirectory(prefix="canaries-") as folder:
        own = plant(planted, Path(folder), settings)
        with tags("probes"), writing(own.store):
            reports = [report for stage in (ingest, screen, decide) for report in _named(stage)(own)]
    through = escaped(Store.existing(own.store), planted, load_policy(own.policy))
    if through:
        escapes = "; ".join(f"{name}: {how}" for name, how in through.items())
        raise CanaryEscaped(f"nothing is released, because planted probes got through the policy ({escapes})")
    calls = sum((Counter(report.model_calls) for report in reports), Counter[str]())
    failures = sum((Counter(report.failures) for report in reports), Counter[str]())
    counts = {"probes": len(planted), "caught": len(planted)}
    seconds = time.monotonic() - started
    return [
        StageReport(stage="canaries", seconds=seconds, counts=counts, model_calls=dict(calls), failures=dict(failures))
    ]


def _named(stage: Flow[[Settings], list[StageReport]]) -> Flow[[Settings], list[StageReport]]:
    return stage.with_options(flow_run_name=f"probes: {stage.name}")
