"""Items of benchmarks that people write: screened and decided on like conversations."""

from collections.abc import Iterator

from flows.before_work import writer_of
from flows.products import item_images
from flows.running.checked_flow import flow, one_writer
from flows.stages import decide, decide_described, describe, ingest, screen
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.providers import Providers
from tasks.signals.steps import measure_item_images, signal_versions
from tasks.storage.tables import Store
from tasks.written_bench.steps import write_missing


@flow(name="take-in-items")
@one_writer
def take_in_written(settings: Settings) -> Iterator[StageReport]:
    """Read the rows of one file of items, which `logs` names, and screen what they say and show."""
    yield from ingest(settings)
    yield from screen(settings)


@flow(name="decide-items")
@one_writer
def decide_written(settings: Settings) -> Iterator[StageReport]:
    """Decide on all items, once their findings are stored, and describe what is kept."""
    yield from decide(settings)
    yield from describe(settings)
    yield measure_item_images(settings, Providers(settings.providers), item_images(Store.open(settings.store)))
    yield from decide_described(settings)


@flow(name="write-items")
@one_writer
def write_items(settings: Settings) -> Iterator[StageReport]:
    """Write the captions and references that kept items lack."""
    providers = Providers(settings.providers)
    yield write_missing(settings, writer_of(settings), signal_versions(providers))
    image_places = item_images(Store.open(settings.store), settings.written.name)
    yield measure_item_images(settings, providers, image_places)
