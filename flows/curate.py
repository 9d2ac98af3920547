"""The whole pipeline. Each stage is a flow of its own and can also be run alone."""

import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from prefect import Flow, tags

from flows.decide import decide, decide_described
from flows.ingest import ingest
from flows.measure import describe, screen
from flows.release import release
from flows.running.checked_flow import flow
from flows.running.one_writer import one_writer
from flows.sample import sample
from schemas.errors import CanaryEscaped
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.policy.canaries import escaped, plant, probes
from tasks.policy.policy_file import load_policy
from tasks.storage.tables import Store


@flow(name="curate")
@one_writer
def curate(settings: Settings) -> Iterator[StageReport]:
    """Raw logs -> a release. Reports each stage as it ends; the last one names the release."""
    yield from until_drawn(settings)
    yield from release(settings)  # leaderboards, report, card


def until_drawn(settings: Settings) -> Iterator[StageReport]:
    """The stages from raw logs to the benchmark."""
    yield from canaries(settings)  # planted probes; one that is not caught ends the run
    yield from ingest(settings)  # log lines and images; each image is decoded once for its id and its signals
    yield from screen(settings)  # signals of every text, for policy rules
    yield from decide(settings)  # keep or drop, with all reasons
    yield from describe(settings)  # signals of kept texts: code, refusals, tags and so on
    yield from decide_described(settings)  # rules about those
    yield from sample(settings)  # topics and the benchmark


@flow(name="canaries")
def canaries(settings: Settings) -> list[StageReport]:
    """Plant, measure and decide the probes. Raises CanaryEscaped when the policy does not catch one."""
    started, planted = time.monotonic(), probes()
    with tempfile.TemporaryDirectory(prefix="canaries-") as folder:
        own = plant(planted, Path(folder), settings)
        with tags("probes"):
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
