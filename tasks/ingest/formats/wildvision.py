"""WildVision's chats and battles: one picture a row, in `image`."""

from collections.abc import Sequence

from tasks.ingest.formats.door import Door
from tasks.ingest.formats.published import Record, Row, battle, chat
from tasks.ingest.log_line import Place


def _pictures(row: Row) -> Sequence[Row]:
    return (row["image"],) if row["image"] else ()


def _chat(row: Row, place: Place) -> Record:
    return chat(row, place, _pictures(row), id_column="question_id")


def _battle(row: Row, place: Place) -> Record:
    return battle(row, place, _pictures(row))


CHAT = Door("wildvision-chat", frozenset({"question_id", "model", "conversation", "image"}), _chat, _pictures, "image")
BATTLE = Door(
    "wildvision-battle",
    frozenset({"question_id", "model_a", "model_b", "winner", "conversation_a", "conversation_b", "image"}),
    _battle,
    _pictures,
    "image",
)
