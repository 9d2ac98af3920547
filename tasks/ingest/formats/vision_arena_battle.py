"""VisionArena-Battle: one vote a row, the pictures of both sides in `images`."""

from collections.abc import Sequence

from tasks.ingest.formats.door import Door
from tasks.ingest.formats.published import Record, Row, battle
from tasks.ingest.log_line import Place


def _pictures(row: Row) -> Sequence[Row]:
    return row["images"] or ()


def _record(row: Row, place: Place) -> Record:
    return battle(row, place, _pictures(row))


DOOR = Door(
    "vision-arena-battle",
    frozenset({"question_id", "model_a", "model_b", "winner", "conversation_a", "conversation_b", "images"}),
    _record,
    _pictures,
    "images",
)
