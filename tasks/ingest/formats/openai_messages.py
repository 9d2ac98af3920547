"""OpenAI-style rows: `messages` of {role, content}, content a text or typed parts; images as data: URIs.

Optional: `id`, `model`, `user`, and a time in `created`, `created_at` or `timestamp`. Images at
other addresses are not fetched; their rows keep the text and a missing image.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from tasks.ingest.formats.adapter import FormatAdapter, Record, Row, chat
from tasks.ingest.log_line import Place


def _images(row: Row) -> Sequence[Row]:
    contents = [message["content"] for message in row["messages"] if isinstance(message["content"], list)]
    parts = [part for content in contents for part in content if part["type"] in ("image_url", "input_image")]
    return [_image(part["image_url"]) for part in parts]


def _image(address: Any) -> Row:
    """{bytes} of a data: URI, {} for other addresses."""
    url = address["url"] if isinstance(address, dict) else address
    head, comma, content = url.partition(",")
    if not head.startswith("data:") or not comma or not head.endswith(";base64"):
        return {}
    try:
        return {"bytes": base64.b64decode(content, validate=True)}
    except binascii.Error:
        return {"bytes": b""}


def _record(row: Row, place: Place) -> Record:
    as_chat = {"model": "unknown", **row, "conversation": row["messages"]}
    return chat(as_chat, place, _images(row), id_column="id")


ADAPTER = FormatAdapter("openai-messages", frozenset({"messages"}), _record, _images, "messages")
