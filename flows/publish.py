"""Publishes a release to the Hub after a person has approved it."""

import json
from pathlib import Path
from typing import Any, cast

from prefect import get_run_logger
from prefect.client.schemas.objects import State
from prefect.flow_runs import suspend_flow_run
from prefect.input import RunInput
from prefect.input.actions import read_flow_run_input
from prefect.states import Cancelled
from pydantic import Field

from flows.products import parts_of_release
from flows.running.checked_flow import ended, flow
from flows.running.settings_file import read
from schemas.errors import BadInput, CurateError
from tasks.publish.plan import StandInsLeft
from tasks.publish.steps import describe_release, push_release

HOURS_TO_DECIDE = 72
_KEY = "approval"
_ANSWER = f"suspended-{_KEY}-response"
"""The name under which Prefect keeps the submitted form of a run that is suspended with `_KEY`."""


class Approval(RunInput):
    """The approval form."""

    approve: bool = Field(default=False, description="Whether this release may be published.")
    approved_by: str = Field(pattern=r"\S.*\S", description="Your name.")
    manifest: str = Field(
        default="",
        pattern=r"^\s*([0-9a-f]{12}\s*)?$",
        description="The 12 digits after `manifest` above; only this manifest is published. Leave empty to refuse.",
    )


def form(text: str) -> type[Approval]:
    """The approval form below `text`. Fields have no initial values, because Prefect would then drop their limits."""
    return Approval.with_initial_data(description=f"```\n{text}\n```")


@flow(name="publish")
def publish(
    release: str,
    repo: str,
    public: bool = False,
    per_config: bool = False,
    preview: bool = False,
    accept_embedded: list[str] | None = None,
    config: str | None = None,
) -> dict[str, str] | State[Any]:
    """Runs as a deployment: suspends until the form is submitted, then starts again and does what it says.

    The stand-ins that are accepted are those of `accept_embedded`, or else those of the settings file `config`.
    """
    what = (release, repo, public, per_config, preview)
    try:
        accepted: list[str] = accept_embedded or (read(Path(config)) if config else {}).get("accept_embedded", [])
        text = "" if read_flow_run_input(_ANSWER) else describe_release(*what, parts_of_release, accepted)
        answer = suspend_flow_run(wait_for_input=form(text), timeout=HOURS_TO_DECIDE * 3600, key=_KEY)
        if not answer.approve:
            return Cancelled(name="NotApproved", message=f"{answer.approved_by} did not approve")
        get_run_logger().info("%r approved manifest %s for %s", answer.approved_by, answer.manifest.strip(), repo)
        return push_release(*what, answer.manifest.strip(), parts_of_release, accepted, answer.approved_by)
    except StandInsLeft as error:
        names = json.dumps([*accepted, *error.names])
        return cast(State[Any], ended(BadInput(f'{error}: "accept_embedded": {names}')))
    except CurateError as error:
        return cast(State[Any], ended(error))
