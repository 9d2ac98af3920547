"""Names of flow runs: what runs, and the UTC day for which it was scheduled."""

from datetime import UTC, datetime
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType


def name_of(what: str, scheduled: datetime) -> str:
    """`nightly 2024-09-18`."""
    return f"{what} {scheduled.astimezone(UTC):%Y-%m-%d}"


def name_scheduled(deployment_id: UUID, what: str) -> None:
    """Name the coming runs of a deployment, which Prefect's scheduler gives random names until they start."""
    coming = FlowRunFilter(
        deployment_id=FlowRunFilterDeploymentId(any_=[deployment_id]),
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED])),
    )
    with get_client(sync_client=True) as client:
        for run in client.read_flow_runs(flow_run_filter=coming):
            if run.auto_scheduled and run.expected_start_time and run.name != name_of(what, run.expected_start_time):
                client.update_flow_run(run.id, name=name_of(what, run.expected_start_time))
