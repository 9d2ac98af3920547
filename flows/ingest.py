"""Raw logs -> conversations, battles, images, rejects."""

from collections.abc import Iterator
from datetime import UTC, datetime

from flows.running.checked_flow import flow
from flows.running.one_writer import one_writer
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.ingest.steps import assemble, read_log_lines, take_in_images
from tasks.providers import Providers
from tasks.signals.run import MeasuringObserver
from tasks.storage.tables import Store
from tasks.takedown.steps import finish_takedowns, forget_requested, withdraw_known_images


@flow(name="ingest")
@one_writer
def ingest(settings: Settings) -> Iterator[StageReport]:
    """Read the logs and the images. Each image is decoded once, for its content id and its signals."""
    observer = MeasuringObserver(Store.open(settings.store), Providers(settings.providers), datetime.now(UTC))
    yield from forget_requested(settings)  # first, so that no line of it is kept
    yield read_log_lines(settings)
    yield take_in_images(settings, observer)
    yield assemble(settings)
    yield withdraw_known_images(settings)
    yield from finish_takedowns(settings)
