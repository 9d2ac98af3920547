"""Takes in what models made: images from `drawings`, and the items of benchmarks as log lines without an answer."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import polars as pl

from schemas.benches.generated import Drawing, DrawingState, GeneratedImage, GeneratedItem
from schemas.items.conversation import ImagePlace, RecordType, Sighting
from tasks.ingest.formats.adapter import UNDATED_SECONDS
from tasks.ingest.image_files import ImageSource
from tasks.ingest.quarantine import EMBEDDED_SUFFIX
from tasks.storage.content_id import text_id
from tasks.storage.keyed_ids import Tombstones
from tasks.storage.tables import Store, frame_of

NO_MODEL = "no-model"
"""Model of an item's conversation: nobody has answered it."""
WITHHELD = "withheld"
"""Why an image cannot be used that is on a list of known hashes, or was taken down."""


def waiting_drawings(store: Store) -> list[Drawing]:
    """The images that wait to be taken in, and the orders that were refused."""
    return [Drawing.model_validate(row) for row in store.read("drawings").to_dicts()]


def sources_of(drawings: Iterable[Drawing]) -> list[ImageSource]:
    """The images that were drawn."""
    return [
        ImageSource(drawing.name + EMBEDDED_SUFFIX, None, drawing.content)
        for drawing in drawings
        if drawing.state is DrawingState.DRAWN
    ]


def record_drawings(store: Store, drawings: Iterable[Drawing]) -> None:
    """Write what became of each order to `generated_images`; then `drawings` and its bytes are removed."""
    files = store.read("image_files", ["name", "image_id", "problem"]).unique("name", keep="last")
    outcomes = {name: (image_id, problem) for name, image_id, problem in files.iter_rows()}
    rows = [_record(drawing, *outcomes.get(drawing.name + EMBEDDED_SUFFIX, (None, WITHHELD))) for drawing in drawings]
    store.append("generated_images", frame_of(GeneratedImage, rows))
    store.list_parts("drawings", [])


def _record(drawing: Drawing, image_id: str | None, problem: str | None) -> GeneratedImage:
    refused = drawing.state is DrawingState.REFUSED
    state = DrawingState.DRAWN if image_id else DrawingState.UNUSABLE
    return GeneratedImage(
        description_id=drawing.description_id,
        attempt=drawing.attempt,
        name=drawing.name,
        told=drawing.told,
        state=drawing.state if refused else state,
        reason="refused" if refused else problem or "",
        image_id=None if refused else image_id,
        version=drawing.version,
    )


def sight_items(store: Store, tombstones: Tombstones) -> int:
    """Write a sighting for every item that has none and was not taken down. Returns how many."""
    items = [GeneratedItem.model_validate(row) for row in store.read("generated_items").to_dicts()]
    sighted_ids = set(store.read("sightings", ["conv_id"])["conv_id"])
    gone_ids = tombstones.conversations(pl.Series([item.item_id for item in items], dtype=pl.String))
    new_items = [item for item in items if item.item_id not in sighted_ids and item.item_id not in gone_ids]
    store.append("sightings", frame_of(Sighting, map(_sighting, new_items)))
    return len(new_items)


def _sighting(item: GeneratedItem) -> Sighting:
    place = ImagePlace(image=0, character=0, message=0)
    return Sighting(
        source=f"generated/{item.bench}",
        line=item.number + 1,
        side=0,
        record_type=RecordType.CHAT,
        tstamp=datetime.fromtimestamp(UNDATED_SECONDS, UTC) + timedelta(microseconds=item.number + 1),
        conv_id=item.item_id,
        opening_id=text_id(item.prompt),
        model=NO_MODEL,
        texts=[item.prompt],
        num_messages=1,
        images=[item.name],
        image_places=[place],
        name_problems=[],
        user_id=None,
        anonymous=None,
        winner=None,
        vote_reason=None,
        served=None,
        unread_parts=[],
        opinion=None,
        consent=None,
    )
