"""Adapters of published datasets and of items that people wrote for a benchmark.

The datasets: VisionArena, WildVision, lmsys-chat-1m and the arena's human preference releases.

In a chat dataset a row is one conversation, in a battle dataset one vote on two. OpenAI-style rows have `messages` of
{role, content}, content a text or typed parts, images as data: URIs; optional are `id`, `model`, `user`, and a time in
`created`, `created_at` or `timestamp`. Images at other addresses are not fetched: their rows keep the text and a
missing image. An item, of `curate bench collect`, becomes a conversation without an answer; one with a problem, or
whose captions are unlike its images in number, is rejected.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any

from schemas.benches.written import AUTHOR
from schemas.items.reject import LineRejected, RejectReason
from tasks.ingest.formats.adapter import FormatAdapter, Record, Row, battle, chat
from tasks.ingest.log_line import Place


def _images_of_messages(row: Row) -> Sequence[Row]:
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


def _record_of_messages(row: Row, place: Place) -> Record:
    as_chat = {"model": "unknown", **row, "conversation": row["messages"]}
    return chat(as_chat, place, _images_of_messages(row), id_column="id")


OPENAI_MESSAGES = FormatAdapter(
    "openai-messages", frozenset({"messages"}), _record_of_messages, _images_of_messages, "messages"
)


Images = Callable[[Row], Sequence[Row]]
_CHAT = {"model", "conversation"}
_BATTLE = {"model_a", "model_b", "winner", "conversation_a", "conversation_b"}


def _chats(name: str, id_column: str, image_column: str, images: Images) -> FormatAdapter:
    def record(row: Row, place: Place) -> Record:
        return chat(row, place, images(row), id_column=id_column)

    return FormatAdapter(name, frozenset({id_column, image_column, *_CHAT}), record, images, image_column)


def _battles(name: str, image_column: str, images: Images) -> FormatAdapter:
    def record(row: Row, place: Place) -> Record:
        return battle(row, place, images(row))

    return FormatAdapter(name, frozenset({"question_id", image_column, *_BATTLE}), record, images, image_column)


def _images(row: Row) -> Sequence[Row]:
    return row["images"] or ()


def _one_image(row: Row) -> Sequence[Row]:
    return (row["image"],) if row["image"] else ()


def _missing_images(row: Row) -> Sequence[Row]:
    """The preference releases hold no images; a message with one keeps its text and a missing image."""
    contents = [message["content"] for message in row["conversation_a"] if isinstance(message["content"], list)]
    return [{} for content in contents for part in content if part["type"] == "image"]


def _preference(row: Row, place: Place) -> Record:
    return battle(row, place, _missing_images(row), id_column="question_id" if "question_id" in row else "id")


PUBLISHED = (
    _chats("vision-arena-chat", "conversation_id", "images", _images),
    _battles("vision-arena-battle", "images", _images),
    _chats("wildvision-chat", "question_id", "image", _one_image),
    _battles("wildvision-battle", "image", _one_image),
    FormatAdapter("human-preference", frozenset(_BATTLE), _preference, _missing_images),
    FormatAdapter("lmsys-chat", frozenset({"conversation_id", *_CHAT}), chat),
)


PROBLEMS = (
    "its family is not in the families file",
    "no instruction",
    "no image",
    "captions unlike images in number",
    "an id that an earlier item has",
    "an image path that leads out of the folder",
    "an image file of more than 64 MiB",
)
"""Problems that `curate bench collect` finds in rows that cannot be used."""


def _item(row: Row, place: Place) -> Record:
    if row["problem"]:
        known = row["problem"] in PROBLEMS
        raise LineRejected(RejectReason.BAD_ITEM, row["problem"] if known else "another problem of its file")
    if row["captions"] and len(row["captions"]) != len(_images(row)):
        raise LineRejected(RejectReason.BAD_ITEM, PROBLEMS[3])
    said = [{"role": "user", "content": row["instruction"]}]
    return chat(
        {"model": AUTHOR, "item_id": row["item_id"], "conversation": said}, place, _images(row), id_column="item_id"
    )


BENCH_ITEMS = FormatAdapter(
    "bench-items", frozenset({"item_id", "instruction", "images", "captions", "problem"}), _item, _images, "images"
)
