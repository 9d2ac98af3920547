"""lmsys-chat-1m: one conversation a row, text only, without a time."""

from tasks.ingest.formats.door import Door, no_pictures
from tasks.ingest.formats.published import Record, Row, chat
from tasks.ingest.log_line import Place


def _record(row: Row, place: Place) -> Record:
    return chat(row, place, ())


DOOR = Door("lmsys-chat", frozenset({"conversation_id", "model", "conversation"}), _record, no_pictures, None)
