"""Facts and a policy -> decisions."""

from prefect import flow

from schemas.run import StageReport
from schemas.settings import Settings
from tasks.decide.steps import decide_items, find_near_pictures
from tasks.measure.steps import signal_versions
from tasks.providers import Providers


@flow(name="decide")
def decide(settings: Settings) -> list[StageReport]:
    """Keep or drop every conversation and battle, with every reason."""
    versions = signal_versions(Providers(settings.providers))
    return [find_near_pictures(settings, versions), decide_items(settings, versions)]
