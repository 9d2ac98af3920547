"""Prefect's `flow`, but a call ends with one clear line when the server of PREFECT_API_URL does not answer."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import prefect
from prefect.settings import PREFECT_API_URL

from flows.commands.engine import check_server

P = ParamSpec("P")
R = TypeVar("R")


class CheckedFlow(prefect.Flow[P, R]):
    """A flow for notebooks and other flows. Without PREFECT_API_URL, Prefect starts a temporary server for the call."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Run the flow. Raises EngineUnwell when the configured server does not answer."""
        if url := PREFECT_API_URL.value():
            check_server(url)
        return super().__call__(*args, **options)


def flow(name: str, flow_run_name: Callable[[], str] | None = None) -> Callable[[Callable[P, R]], prefect.Flow[P, R]]:
    """Decorator: make a function a flow of this name."""
    return lambda stage: CheckedFlow(stage, name=name, flow_run_name=flow_run_name)
