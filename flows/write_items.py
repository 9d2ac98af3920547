"""Items that people wrote, or drawn prompts -> their captions and references."""

from collections.abc import Iterator

from flows.checked_flow import flow
from flows.one_writer import one_writer
from flows.products import item_images
from flows.writer import writer_of
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.bench.written.steps import write_missing
from tasks.providers import Providers
from tasks.signals.steps import measure_item_images, signal_versions
from tasks.storage.tables import Store


@flow(name="write-items")
@one_writer
def write_items(settings: Settings) -> Iterator[StageReport]:
    """Write the captions and references that kept items lack."""
    providers = Providers(settings.providers)
    yield write_missing(settings, writer_of(settings), signal_versions(providers))
    shown = item_images(Store.open(settings.store), settings.written.name)
    yield measure_item_images(settings, providers, shown)
