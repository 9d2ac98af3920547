"""arena-human-preference (100k, 140k) and chatbot_arena_conversations: one vote a row.

They are text; a message that has an image all the same keeps its text and a missing image.
"""

from collections.abc import Sequence

from tasks.ingest.formats.adapter import FormatAdapter, Record, Row, battle
from tasks.ingest.log_line import Place


def _images(row: Row) -> Sequence[Row]:
    contents = [message["content"] for message in row["conversation_a"] if isinstance(message["content"], list)]
    return [{} for content in contents for part in content if part["type"] == "image"]


def _record(row: Row, place: Place) -> Record:
    return battle(row, place, _images(row), id_column="question_id" if "question_id" in row else "id")


ADAPTER = FormatAdapter(
    "human-preference",
    frozenset({"model_a", "model_b", "winner", "conversation_a", "conversation_b"}),
    _record,
    _images,
)
