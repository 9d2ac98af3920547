"""A flow that writes to a store holds it, wherever the flow runs."""

from collections.abc import Callable
from functools import wraps

from schemas.run import StageReport
from schemas.settings import Settings
from tasks.store_lock import writing

Stage = Callable[[Settings], list[StageReport]]


def one_writer(stage: Stage) -> Stage:
    """Hold the settings' store while the flow runs. Raises BadInput when another process writes to it."""

    @wraps(stage)
    def held(settings: Settings) -> list[StageReport]:
        with writing(settings.store):
            return stage(settings)

    return held
