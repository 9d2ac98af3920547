"""Removes what `retention` of the settings no longer keeps, at the end of a whole run, and says so on stderr."""

import os
from datetime import UTC, datetime, timedelta

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterEndTime, FlowRunFilterTags

from schemas.settings import Settings
from tasks.runtime.progress import tell
from tasks.storage.tables import Store
from tasks.upkeep.retention import removable, remove

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
