"""Flow runs whose process was killed: nobody else gives them a last state.

A run has a tag while it holds its store's lock, and so have the runs of its inner flows. Whoever takes the lock finds
runs that still have it: they were killed. A run that only waits for the store has no such tag.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.states import Crashed

from tasks.storage.keyed_ids import place_id
from tasks.storage.tables import Store

KILLED_MESSAGE = "The run's process was killed, perhaps for lack of memory. The next run continues its work."
_AT_WORK = [StateType.RUNNING, StateType.CANCELLING]


def tell_killed(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:
    """Give a run that was killed a state that says what happens next, in place of Prefect's. Its worker calls this."""
    if "exited with" in (state.message or ""):
        with get_client(sync_client=True) as client:
            _name_killed(client, flow_run.id)


def holder_tag(store: Store) -> str:
    """The tag of the runs that hold this store's lock."""
    return f"writes to store {place_id(store)}"


def take_over(run_id: UUID, tags: Iterable[str], tag: str) -> None:
    """End all other runs that have this tag, and give it to a run beside its `tags`. Call it while holding the lock."""
    at_work = FlowRunFilterState(type=FlowRunFilterStateType(any_=_AT_WORK))
    others = FlowRunFilter(id=FlowRunFilterId(not_any_=[run_id]), tags=FlowRunFilterTags(all_=[tag]), state=at_work)
    with get_client(sync_client=True) as client:
        for run in client.read_flow_runs(flow_run_filter=others):
            client.set_flow_run_state(run.id, Crashed(message=KILLED_MESSAGE), force=True)  # of which automations tell
            _name_killed(client, run.id)
        client.update_flow_run(run_id, tags=[*tags, tag])


def give_back(run_id: UUID, tags: Iterable[str]) -> None:
    """Take the tag from a run again. Call it while it still holds the lock."""
    with get_client(sync_client=True) as client:
        client.update_flow_run(run_id, tags=[*tags])


def _name_killed(client: SyncPrefectClient, run_id: UUID) -> None:
    client.set_flow_run_state(run_id, Crashed(name="Killed", message=KILLED_MESSAGE), force=True)
