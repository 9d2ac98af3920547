"""The parts of a message, in the spellings of OpenAI, Anthropic, Qwen, Hugging Face, LangChain, Vercel, Ollama and TRL.

In: a message as a row has it. Out: its parts in order, each a text, a picture, or of another kind that is only named.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tasks.ingest.formats.pictures import PICTURE_KEYS, is_data_address, is_empty, listed, picture_of, stated_media_type

Row = Mapping[str, Any]
TEXT, PICTURE, THINKING, UNKNOWN = "text", "image", "thinking", "unknown"
"""The kinds that are read, and the name of a part that says no kind in plain letters."""
USER, ASSISTANT, SYSTEM, TOOL = "user", "assistant", "system", "tool"
_ROLES = {
    **dict.fromkeys(("user", "human"), USER),
    **dict.fromkeys(("assistant", "gpt", "model", "chatgpt", "bot"), ASSISTANT),
    **dict.fromkeys(("system", "developer"), SYSTEM),
    **dict.fromkeys(("tool", "function", "tool_response", "observation", "function_call", "tool_call"), TOOL),
}
_TEXTS = ("text", "input_text", "output_text", "refusal")
_THOUGHTS = ("thinking", "reasoning", "reasoning_content")
_PICTURES = ("image", "image_url", "input_image", "image_file", "img", "picture")
_FILES = ("file", "input_file", "document", "media", "blob", "inline_data", "inlineData")
_OTHERS = ("video", "videos", "audio", "audios", "file", "files", "attachment", "attachments", "document", "documents")
_CONTENT = tuple(dict.fromkeys((*_TEXTS, *_THOUGHTS, *_PICTURES, *_FILES, *_OTHERS)))
_TOOLS = frozenset({"tool_use", "tool_result", "tool_call", "function_call", "server_tool_use", TOOL})
_OWN = (*_OTHERS, "tool_calls", "function_call")
"""Keys of a message, beside its content, that hold parts of other kinds."""
_NAME = re.compile(r"[a-z][a-z_-]{0,31}")
"""Kinds that are repeated in tables and messages: words of the program that wrote the row."""
_IMAGE_FILE = re.compile(r"(?i)\.(?:png|jpe?g|webp|gif|bmp|avif|hei[cf]|tiff?|svg)\Z")


class MessagePart(NamedTuple):
    """One part of a message."""

    kind: str
    """TEXT, THINKING, PICTURE, or the name of another kind."""
    text: str | None = None
    """The words of a text; null where a part calls itself a text and holds none."""
    picture: Row | None = None
    """The picture (`picture_of`); null for a part that stands for one of the row's column."""

    @property
    def is_of_tools(self) -> bool:
        """Whether it is the call of a tool, or what a tool returned."""
        return self.kind in _TOOLS


def role_of(message: Row) -> str | None:
    """USER, ASSISTANT, SYSTEM or TOOL; None for another value. Raises KeyError for a message without one."""
    role = message["from"] if message.get("role") is None else message["role"]
    return _ROLES.get(role.lower()) if isinstance(role, str) else None


def messages_of(conversation: Any) -> Iterator[Row]:
    """The messages of a conversation; some releases wrap each in a list of one."""
    for message in conversation:
        yield message[0] if isinstance(message, list) and len(message) == 1 else message


def is_plain(message: Any) -> bool:
    """Whether a message is a role and a text and nothing else, as most are: reading these costs a fifth."""
    return (
        type(message) is dict
        and len(message) == 2
        and type(message.get("content")) is str
        and message.get("role")
        in (
            USER,
            ASSISTANT,
        )
    )


def content_in(message: Row) -> Any:
    """The content of a message: a text, one part, or a list of parts."""
    for key in ("content", "value", "text", "parts"):
        if message.get(key) is not None:
            return message[key]
    return None


def parts_of(message: Row) -> list[MessagePart]:
    """The parts of a message in order: what was thought, its own images, its content, and calls of tools."""
    content = content_in(message)
    parts = [_part({"type": key, key: message[key]}) for key in _THOUGHTS if _is_content(message.get(key))]
    parts += [MessagePart(PICTURE, picture=picture_of(each)) for each in own_pictures(message)]
    parts += map(_part, content_items(content))
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        parts.append(MessagePart(TEXT, message["refusal"]))
    for key in _OWN:
        parts += [MessagePart(key.removesuffix("s")) for each in listed(message.get(key)) if _is_content(each)]
    return [MessagePart(TOOL) for _ in parts] if role_of(message) == TOOL else parts


def _is_content(value: Any) -> bool:
    """Whether a value beside the content of a message can hold any; others are facts about it."""
    return isinstance(value, str | bytes | list | Mapping) and not is_empty(value)


def own_pictures(message: Row) -> list[Any]:
    """The values of `images` of a message, but for places of the row's images, which our releases have there."""
    values = [*listed(message.get("images")), *listed(message.get("image"))]
    return [each for each in values if _is_content(each) and not is_place(each)]


def is_place(value: Any) -> bool:
    """Whether a value is the place of one of the row's images: {image: index, character: …}."""
    return isinstance(value, Mapping) and isinstance(value.get("image"), int) and "character" in value


def content_items(content: Any) -> list[Any]:
    """The items of a content, but for empty ones. One that holds a text and a picture is two items."""
    items: list[Any] = []
    for value in listed(content):
        if isinstance(value, Mapping):
            items += _typed(value)
        elif value != "":
            items.append(value)
    return items


def _typed(item: Row) -> list[Row]:
    """An item of a content as items with a type, which Qwen's have not; none for an empty text."""
    if not isinstance(item.get("type"), str):
        keys = [key for key in _CONTENT if item.get(key) not in (None, "", [])]
        typed: list[Row] = [{"type": key, key: item[key]} for key in keys]
        return typed if typed or is_empty(item) else [item]
    name = item["type"].lower()
    texts = (*_TEXTS, *_THOUGHTS, "content", "value")
    is_blank = name in (*_TEXTS, *_THOUGHTS) and all(is_empty(item.get(key)) for key in texts)
    others = _PICTURES if name in _TEXTS else _TEXTS if name in _PICTURES else ()
    more: list[Row] = [{"type": key, key: item[key]} for key in others if not is_empty(item.get(key))]
    return more if is_blank else [item, *more]


def kind_of(item: Any) -> str:
    """The kind of an item of a content."""
    if isinstance(item, str):
        return TEXT
    named = item.get("type") if isinstance(item, Mapping) else None
    name = named.lower() if isinstance(named, str) else UNKNOWN
    if name in _TEXTS:
        return TEXT
    if name in _THOUGHTS and text_of(item) is not None:
        return THINKING
    if name in _PICTURES or (name in map(str.lower, _FILES) and _is_image(item)):
        return PICTURE
    return name_of_kind(name)


def name_of_kind(name: str) -> str:
    """A kind as tables and messages repeat it."""
    return name.lower() if _NAME.fullmatch(name.lower()) else UNKNOWN


def text_of(item: Any) -> str | None:
    """Words of an item of kind text or thinking; None where it holds none."""
    if isinstance(item, str):
        return item
    for key in (*_TEXTS, *_THOUGHTS, "content", "value"):
        value = item.get(key)
        value = value.get("value") if isinstance(value, Mapping) else value
        if isinstance(value, str):
            return value
    return None


def holds_picture(item: Row) -> bool:
    """Whether an item of kind picture holds or names one; else it stands for one of the row's column."""
    return any(item.get(key) is not None for key in (*PICTURE_KEYS, "file_id"))


def _part(item: Any) -> MessagePart:
    kind = kind_of(item)
    if kind in (TEXT, THINKING):
        return MessagePart(kind, text_of(item))
    if kind == PICTURE:
        return MessagePart(kind, picture=picture_of(item) if holds_picture(item) else None)
    return MessagePart(kind)


def _is_image(file: Row) -> bool:
    """Whether a file is an image: by its media type, the head of its data: address, or its name."""
    holders = [file, *(each for each in file.values() if isinstance(each, Mapping))]
    for holder in holders:
        if (told := stated_media_type(holder)) is not None:
            return told.startswith("image/")
    texts = [each for holder in holders for each in holder.values() if isinstance(each, str)]
    addresses = [each for each in texts if is_data_address(each)]
    if addresses:
        return any(is_data_address(each, "image/") for each in addresses)
    return any(_IMAGE_FILE.search(each) for each in texts)
