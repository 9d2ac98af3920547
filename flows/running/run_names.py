"""Names of flow runs: what runs, and the UTC day for which it was scheduled.

Prefect's scheduler gives random names. `prefect deploy` names the runs of its schedules as it ends, and a night names
those that were scheduled since.
"""

import atexit
import sys
from datetime import UTC, datetime
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterTags,
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType
from prefect.settings import PREFECT_API_URL


def name_of(what: str, scheduled: datetime) -> str:
    """`nightly 2024-09-18`."""
    return f"{what} {scheduled.astimezone(UTC):%Y-%m-%d}"


def name_scheduled(deployment_id: UUID, what: str) -> None:
    """Name the coming runs of a deployment as they will be named when they start."""
    coming = FlowRunFilter(
        deployment_id=FlowRunFilterDeploymentId(any_=[deployment_id]),
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED])),
    )
    with get_client(sync_client=True) as client:
        for run in client.read_flow_runs(flow_run_filter=coming):
            if run.auto_scheduled and run.expected_start_time and run.name != name_of(what, run.expected_start_time):
                client.update_flow_run(run.id, name=name_of(what, run.expected_start_time))


OURS = "curation"
"""Tag of the runs of our deployments and of their stages; a server may have runs of others."""


def name_after_deploying() -> None:
    """Have this process, which is `prefect deploy`, name the runs of all our schedules when it ends."""
    atexit.unregister(_schedule_and_name)  # this is called for each deployment
    if PREFECT_API_URL.value():
        atexit.register(_schedule_and_name)


def _schedule_and_name() -> None:
    """Make the coming runs of our deployments, as the scheduler would within a minute, and name them."""
    ours = DeploymentFilter(tags=DeploymentFilterTags(all_=[OURS]))
    try:
        with get_client(sync_client=True) as client:
            for deployment in client.read_deployments(deployment_filter=ours):
                if any(schedule.active for schedule in deployment.schedules):
                    client.request("POST", "/deployments/{id}/schedule", path_params={"id": deployment.id}, json={})
                    name_scheduled(deployment.id, deployment.name)
    except Exception as error:  # a name is no reason to fail
        sys.stderr.write(f"the coming runs have no names before the first night starts ({type(error).__name__})\n")
