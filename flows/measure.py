"""Measures the signals that items do not have yet."""

from collections.abc import Iterator

from flows.running.checked_flow import flow
from flows.running.one_writer import one_writer
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.providers import Providers
from tasks.signals.steps import catch_up_images, measure_documents, measure_texts


@flow(name="screen")
@one_writer
def screen(settings: Settings) -> Iterator[StageReport]:
    """Signals of all items, which policy rules use."""
    providers = Providers(settings.providers)
    yield catch_up_images(settings, providers)
    yield measure_texts(settings, providers, "screen_texts", kept_only=False)


@flow(name="describe")
@one_writer
def describe(settings: Settings) -> Iterator[StageReport]:
    """Signals of kept items only, such as tags and categories."""
    providers = Providers(settings.providers)
    yield measure_texts(settings, providers, "describe_texts", kept_only=True)
    yield measure_documents(settings, providers)


@flow(name="measure")
@one_writer
def measure(settings: Settings) -> Iterator[StageReport]:
    """Signals of all items and, after `decide`, of kept items."""
    yield from screen(settings)
    yield from describe(settings)
