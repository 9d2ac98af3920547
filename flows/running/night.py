"""Surroundings of the stages of a whole run: planted probes before them, and retention at the end."""

import os
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from prefect import tags
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterEndTime, FlowRunFilterTags

from flows.running.checked_flow import flow
from flows.stages import decide, ingest, screen
from schemas.errors import CanaryEscaped
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.policy.canaries import escaped, plant, probes
from tasks.policy.policy_file import load_policy
from tasks.runtime.progress import tell
from tasks.storage.lock import writing
from tasks.storage.tables import Store
from tasks.upkeep.retention import removable, remove


@flow(name="canaries")
def canaries(settings: Settings) -> list[StageReport]:
    """Plant, measure and decide the probes. Raises CanaryEscaped when the policy does not catch one."""
    started, planted = time.monotonic(), probes()
    with tempfile.TemporaryDirectory(prefix="canaries-") as folder:
        own = plant(planted, Path(folder), settings)
        with tags("probes"), writing(own.store):
            named = (stage.with_options(flow_run_name=f"probes: {stage.name}") for stage in (ingest, screen, decide))
            reports = [report for stage in named for report in stage(own)]
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


OURS = "curation"
"""Tag of the runs of our deployments and of their stages; a server may have runs of others."""


def keep_only(settings: Settings) -> None:
    """Remove old releases, run records and probes of the store, and old flow runs of ours from Prefect's history."""
    store, now = Store.open(settings.store), datetime.now(UTC)
    found = removable(store, settings, now)
    remove(store, found)
    gone = dict(found.counts)
    if days := settings.retention.prefect_days:
        gone |= {"flow runs": forget_flow_runs(now - timedelta(days=days))}
    if told := ", ".join(f"{name} {count:,}" for name, count in gone.items() if count):
        tell(f"removed, because `retention` no longer keeps it: {told}")


def forget_flow_runs(before: datetime) -> int:
    """Delete at most 200 runs that ended before then, the most that Prefect lists at once; the next run goes on."""
    own_server = "PREFECT_API_URL" not in os.environ
    tags = None if own_server else FlowRunFilterTags(all_=[OURS])
    with get_client(sync_client=True) as client:
        old = client.read_flow_runs(
            flow_run_filter=FlowRunFilter(end_time=FlowRunFilterEndTime(before_=before), tags=tags), limit=200
        )
        for run in old:
            client.delete_flow_run(run.id)
    return len(old)
