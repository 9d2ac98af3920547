"""arena-human-preference (55k to 140k) and chatbot_arena_conversations: one vote a row, text only."""

from tasks.ingest.formats.door import Door, no_pictures
from tasks.ingest.formats.published import Record, Row, battle
from tasks.ingest.log_line import Place


def _record(row: Row, place: Place) -> Record:
    return battle(row, place, (), id_column="question_id" if "question_id" in row else "id")


DOOR = Door(
    "human-preference",
    frozenset({"model_a", "model_b", "winner", "conversation_a", "conversation_b"}),
    _record,
    no_pictures,
    None,
)
