"""VisionArena-Chat (one conversation a row) and VisionArena-Battle (one vote a row), with a list of `images`."""

from collections.abc import Sequence

from tasks.ingest.formats.adapter import FormatAdapter, Record, Row, battle, chat
from tasks.ingest.log_line import Place


def _images(row: Row) -> Sequence[Row]:
    return row["images"] or ()


def _chat(row: Row, place: Place) -> Record:
    return chat(row, place, _images(row))


def _battle(row: Row, place: Place) -> Record:
    return battle(row, place, _images(row))


CHAT = FormatAdapter(
    "vision-arena-chat",
    frozenset({"conversation_id", "model", "conversation", "images"}),
    _chat,
    _images,
    "images",
)
BATTLE = FormatAdapter(
    "vision-arena-battle",
    frozenset({"question_id", "model_a", "model_b", "winner", "conversation_a", "conversation_b", "images"}),
    _battle,
    _images,
    "images",
)
