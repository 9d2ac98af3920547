"""Measures the signals that items do not have yet."""

from prefect import flow

from flows.one_writer import one_writer
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.providers import Providers
from tasks.signals.steps import catch_up_pictures, measure_documents, measure_texts


@flow(name="screen")
@one_writer
def screen(settings: Settings) -> list[StageReport]:
    """Signals of all items, which policy rules use."""
    providers = Providers(settings.providers)
    return [
        catch_up_pictures(settings, providers),
        measure_texts(settings, providers, "screen_texts", kept_only=False),
    ]


@flow(name="describe")
@one_writer
def describe(settings: Settings) -> list[StageReport]:
    """Signals of kept items only, such as tags and categories."""
    providers = Providers(settings.providers)
    return [
        measure_texts(settings, providers, "describe_texts", kept_only=True),
        measure_documents(settings, providers),
    ]
