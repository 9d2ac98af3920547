"""lmsys-chat-1m: one conversation a row, text only, without a time."""

from tasks.ingest.formats.adapter import FormatAdapter, chat

ADAPTER = FormatAdapter("lmsys-chat", frozenset({"conversation_id", "model", "conversation"}), chat)
