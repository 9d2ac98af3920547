"""Names and states of flow runs, as `prefect flow-run ls` and the UI show them."""

import re
from typing import Any

from prefect.context import FlowRunContext
from prefect.runtime import deployment, flow_run
from prefect.states import Failed

from schemas.errors import CurateError


def run_name() -> str:
    """Deployment, or else flow, and the UTC day for which the run was scheduled: `nightly 2024-09-18`."""
    context = FlowRunContext.get()
    inner = context and context.flow_run and context.flow_run.parent_task_run_id  # the server need not be asked
    what = None if inner else deployment.name
    return f"{what or flow_run.flow_name} {flow_run.scheduled_start_time:%Y-%m-%d}"


def ended(error: CurateError) -> Any:
    """The state of a run that ends with this error: its line, and a name such as `Held` or `Missing provider`.

    Prefect raises the error for the caller of the flow, but logs no traceback. Outside a flow run it is raised here.
    """
    if FlowRunContext.get() is None:
        raise error
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).capitalize()
    return Failed(name="Held" if error.exit_status == 3 else words, message=str(error), data=error)
