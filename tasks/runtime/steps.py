"""A step of a stage: a Prefect task whose report says what it took."""

from collections.abc import Callable
from typing import ParamSpec

from prefect import Task, task
from prefect.cache_policies import NO_CACHE

from schemas.run import StageReport
from tasks.runtime.progress import timed

Parameters = ParamSpec("Parameters")


def step(work: Callable[Parameters, StageReport]) -> Task[Parameters, StageReport]:
    """Decorator: make a function a task that runs whenever it is called, and `timed`."""
    return task(cache_policy=NO_CACHE)(timed(work))
