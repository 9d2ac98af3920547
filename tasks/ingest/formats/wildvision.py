"""WildVision's chats and battles: one image a row, in `image`."""

from collections.abc import Sequence

from tasks.ingest.formats.adapter import FormatAdapter, Record, Row, battle, chat
from tasks.ingest.log_line import Place


def _images(row: Row) -> Sequence[Row]:
    return (row["image"],) if row["image"] else ()


def _chat(row: Row, place: Place) -> Record:
    return chat(row, place, _images(row), id_column="question_id")


def _battle(row: Row, place: Place) -> Record:
    return battle(row, place, _images(row))


CHAT = FormatAdapter(
    "wildvision-chat", frozenset({"question_id", "model", "conversation", "image"}), _chat, _images, "image"
)
BATTLE = FormatAdapter(
    "wildvision-battle",
    frozenset({"question_id", "model_a", "model_b", "winner", "conversation_a", "conversation_b", "image"}),
    _battle,
    _images,
    "image",
)
