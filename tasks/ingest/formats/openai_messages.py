"""OpenAI-style rows: `messages` of {role, content}, content a text or typed parts; pictures as data: URIs.

Optional: `id`, `model`, `user`, and a time in `created`, `created_at` or `timestamp`. Pictures elsewhere on the
network are not fetched; their rows keep their text and a missing picture.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from tasks.ingest.formats.door import Door
from tasks.ingest.formats.published import Record, Row, chat
from tasks.ingest.log_line import Place


def _pictures(row: Row) -> Sequence[Row]:
    contents = [message["content"] for message in row["messages"] if isinstance(message["content"], list)]
    parts = [part for content in contents for part in content if part["type"] in ("image_url", "input_image")]
    return [_picture(part["image_url"]) for part in parts]


def _picture(address: Any) -> Row:
    """{bytes} of a data: URI; nothing of an address on the network."""
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
    return chat(as_chat, place, _pictures(row), id_column="id")


DOOR = Door("openai-messages", frozenset({"messages"}), _record, _pictures, "messages")
