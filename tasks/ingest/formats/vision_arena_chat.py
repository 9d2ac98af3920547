"""VisionArena-Chat: one conversation a row, its pictures in `images`, each message wrapped in a list of one."""

from collections.abc import Sequence

from tasks.ingest.formats.door import Door
from tasks.ingest.formats.published import Record, Row, chat
from tasks.ingest.log_line import Place


def _pictures(row: Row) -> Sequence[Row]:
    return row["images"] or ()


def _record(row: Row, place: Place) -> Record:
    return chat(row, place, _pictures(row))


DOOR = Door(
    "vision-arena-chat",
    frozenset({"conversation_id", "model", "conversation", "images"}),
    _record,
    _pictures,
    "images",
)
