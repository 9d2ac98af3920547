"""The parts of a message, in the spellings of OpenAI, Anthropic, Qwen, Hugging Face, LangChain, Vercel, Ollama and TRL.

In: a message as a row has it. Out: its parts in order, each a text, a thought, a picture, or of another kind that is
only named. A PDF is one picture a page (`documents.py` opens those that are files). Another spelling of a known kind is
a word in `_TEXT_TYPES`, `_THOUGHT_TYPES`, `_PICTURE_TYPES` or `_FILE_TYPES`; another key beside the content that holds
parts is one in `_KEYS_BESIDE_CONTENT`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tasks.images.pdf_pages import PDF, PdfRejected, page_count
from tasks.ingest.formats.pictures import (
    PICTURE_KEYS,
    SourceRow,
    as_list,
    is_data_address,
    is_empty,
    path_of,
    picture_bytes,
    picture_of,
    stated_media_type,
)

TEXT, PICTURE, THINKING_PART, UNKNOWN_PART = "text", "image", "thinking", "unknown"
"""The kinds that are read, and the name of a part that states no kind in plain letters."""
USER, ASSISTANT, SYSTEM, TOOL = "user", "assistant", "system", "tool"
_ROLES = {
    **dict.fromkeys(("user", "human"), USER),
    **dict.fromkeys(("assistant", "gpt", "model", "chatgpt", "bot"), ASSISTANT),
    **dict.fromkeys(("system", "developer"), SYSTEM),
    **dict.fromkeys(("tool", "function", "tool_response", "observation", "function_call", "tool_call"), TOOL),
}
"""Role as datasets spell it, in lower case -> role."""
_TEXT_TYPES = ("text", "input_text", "output_text", "refusal")
_THOUGHT_TYPES = ("thinking", "reasoning", "reasoning_content")
_PICTURE_TYPES = ("image", "image_url", "input_image", "image_file", "img", "picture")
_FILE_TYPES = ("file", "input_file", "document", "media", "blob", "inline_data", "inlineData")
"""A file is a picture if `_is_image_file`, and else of another kind."""
_OTHER_TYPES = (
    "video",
    "videos",
    "audio",
    "audios",
    "file",
    "files",
    "attachment",
    "attachments",
    "document",
    "documents",
)
_TYPES = tuple(dict.fromkeys((*_TEXT_TYPES, *_THOUGHT_TYPES, *_PICTURE_TYPES, *_FILE_TYPES, *_OTHER_TYPES)))
"""Values of `type`, and, in Qwen's items, which have no `type`, the key below which the item stands."""
_TEXT_KEYS = (*_TEXT_TYPES, *_THOUGHT_TYPES, "content", "value")
"""Keys below which an item holds its words, the first that is a text counts."""
_TOOL_KINDS = frozenset({"tool_use", "tool_result", "tool_call", "function_call", "server_tool_use", TOOL})
CONTENT_KEYS = ("user_content", "content", "value", "text", "parts")
"""Keys of a message below which its content stands; the first that is there counts."""
_KEYS_BESIDE_CONTENT = (*_OTHER_TYPES, "tool_calls", "function_call")
"""Keys of a message, beside its content, that hold parts of other kinds."""
_KEYS_OF_PARTS = (*_THOUGHT_TYPES, "images", "image", "refusal", *_KEYS_BESIDE_CONTENT)
"""All keys of a message beside its content, and but for `user_content`, that hold parts."""
_SEARCH_RESULTS = "search_results"
"""Kind of the results of a search that a server put into a person's message."""
_KIND_NAME = re.compile(r"[a-z][a-z_-]{0,31}")
"""Kinds that may be repeated in tables and messages: words of the program that wrote the row, not of its users."""
_PDF_TYPE = "application/pdf"
_PDF_FILE = re.compile(r"(?i)\.pdf\Z")
_IMAGE_FILE = re.compile(r"(?i)\.(?:png|jpe?g|webp|gif|bmp|avif|hei[cf]|tiff?|svg)\Z")


class MessagePart(NamedTuple):
    """One part of a message."""

    kind: str
    """TEXT, THINKING, PICTURE, or the name of another kind."""
    text: str | None = None
    """The words of a text or thought; null where a part calls itself one and has no words."""
    picture: SourceRow | None = None
    """The picture (`picture_of`), of a page of a PDF with the number of the page as `page`; null for a part that only
    marks where a picture of the row's column stands."""

    @property
    def is_of_tools(self) -> bool:
        """Whether it is the call of a tool, or what a tool returned."""
        return self.kind in _TOOL_KINDS


class DocumentFile(NamedTuple):
    """A PDF in a file, in place of the item of a content that names it."""

    path: str
    """The spelling of the row."""
    pages: int
    """Pages that are drawn; 0 if none can be."""
    kind: str
    """The kind of the part where no page can be drawn; else empty."""


def role_of(message: SourceRow) -> str | None:
    """USER, ASSISTANT, SYSTEM or TOOL; None for another value. Raises KeyError for a message without one."""
    role = message["from"] if message.get("role") is None else message["role"]
    return _ROLES.get(role.lower()) if isinstance(role, str) else None


def messages_of(conversation: Any) -> Iterator[SourceRow]:
    """The messages of a conversation; some releases wrap each in a list of one."""
    for message in conversation:
        is_wrapped = isinstance(message, list) and len(message) == 1
        yield message[0] if is_wrapped else message


def is_plain(message: Any) -> bool:
    """Whether a message is {role: user or assistant, content: a text} and nothing else.

    Most messages are. Its content is its only part, so callers skip `parts_of`, which takes five times as long.
    """
    return (
        type(message) is dict
        and len(message) == 2
        and type(message.get("content")) is str
        and message.get("role") in (USER, ASSISTANT)
    )


def content_in(message: SourceRow) -> Any:
    """The content of a message: a text, one part, or a list of parts.

    compar:IA has what a person typed in `user_content`, and in `content` the same with results of a search.
    """
    for key in CONTENT_KEYS:
        if message.get(key) is not None:
            return message[key]
    return None


def beside_content(message: SourceRow) -> dict[str, Any]:
    """The parts that stand beside the content of a message, for adapters that write the content anew."""
    return {key: message[key] for key in _KEYS_OF_PARTS if message.get(key) is not None}


def parts_of(message: SourceRow) -> list[MessagePart]:
    """The parts of a message in order: thoughts, pictures beside the content, the content, and what else is beside it.

    Every part of a tool's message is of kind TOOL.
    """
    parts: list[MessagePart] = []
    for key in _THOUGHT_TYPES:
        if _may_hold_part(message.get(key)):
            parts += _parts({"type": key, key: message[key]})
    for picture in _pictures_beside_content(message):
        parts.append(MessagePart(PICTURE, picture=picture_of(picture)))
    for item in _content_items(content_in(message)):
        parts += _parts(item)
    # OpenAI's answers have null as content and the words beside it when the model declines.
    refusal = message.get("refusal")
    if _may_hold_part(refusal):
        parts.append(MessagePart(TEXT, refusal if isinstance(refusal, str) else None))
    if message.get("user_content") is not None and message.get("content") not in (None, message["user_content"]):
        parts.append(MessagePart(_SEARCH_RESULTS))
    for key in _KEYS_BESIDE_CONTENT:
        if message.get(key) is None:  # most messages have none of these keys
            continue
        values = [value for value in as_list(message[key]) if _may_hold_part(value)]
        parts += [MessagePart(key.removesuffix("s"))] * len(values)
    if role_of(message) == TOOL:
        return [MessagePart(TOOL)] * len(parts)
    return parts


def _may_hold_part(value: Any) -> bool:
    """Whether a value beside the content may hold a part; numbers and the like are facts about the message."""
    return isinstance(value, str | bytes | list | Mapping) and not is_empty(value)


def _pictures_beside_content(message: SourceRow) -> list[Any]:
    """The values of `images` and `image` of a message that hold pictures; in our releases they are image places."""
    values = [*as_list(message.get("images")), *as_list(message.get("image"))]
    return [value for value in values if _may_hold_part(value) and not is_image_place(value)]


def is_image_place(value: Any) -> bool:
    """Whether a value of a message's `images` is {image: i, character: n}, as in our releases.

    It holds no picture: picture i of the row's column stands before character n of the message.
    """
    return isinstance(value, Mapping) and isinstance(value.get("image"), int) and "character" in value


def _content_items(content: Any) -> list[Any]:
    """The items of a content, and of lists in it, that are not empty. One of a text and a picture becomes two items."""
    items: list[Any] = []
    values = list(reversed(as_list(content)))
    while values:
        value = values.pop()
        if isinstance(value, Mapping):
            items += _items_with_type(value)
        elif isinstance(value, list):
            values += reversed(as_list(value))
        elif value != "":
            items.append(value)
    return items


def _items_with_type(item: SourceRow) -> list[SourceRow]:
    """An item of a content as items that each have a `type`; none for an empty text."""
    # Qwen's items have no `type`: {image: …, text: …} is a picture and a text.
    if not isinstance(item.get("type"), str):
        keys = [key for key in _TYPES if item.get(key) not in (None, "", [])]
        typed: list[SourceRow] = [{"type": key, key: item[key]} for key in keys]
        return typed if typed or is_empty(item) else [item]
    name = item["type"].lower()
    # A text may hold a picture below a second key, and a picture its caption: {type: text, text: …, image: …}.
    second_types: tuple[str, ...] = ()
    if name in _TEXT_TYPES:
        second_types = _PICTURE_TYPES
    elif name in _PICTURE_TYPES:
        second_types = _TEXT_TYPES
    second_items: list[SourceRow] = [
        {"type": key, key: item[key]} for key in second_types if not is_empty(item.get(key))
    ]
    has_words = any(not is_empty(item.get(key)) for key in _TEXT_KEYS)
    if name in (*_TEXT_TYPES, *_THOUGHT_TYPES) and not has_words:
        # An empty text is no part; what has no text at all, and holds something else, is one without words.
        is_other = item.keys().isdisjoint(_TEXT_KEYS) and not is_empty({**item, "type": None}) and not second_items
        return [item] if is_other else second_items
    return [item, *second_items]


def _kind_of(item: Any) -> str:
    """The kind of an item of a content."""
    if isinstance(item, str):
        return TEXT
    stated = item.get("type") if isinstance(item, Mapping) else None
    name = stated.lower() if isinstance(stated, str) else UNKNOWN_PART
    if name in _TEXT_TYPES:
        return TEXT
    # Thoughts that a vendor has encrypted have no words: another kind.
    if name in _THOUGHT_TYPES and _text_of(item) is not None:
        return THINKING_PART
    if name in _PICTURE_TYPES:
        return PICTURE
    if name in map(str.lower, _FILE_TYPES):
        if _is_file_of(item, "image/", _IMAGE_FILE):
            return PICTURE
        if _is_file_of(item, _PDF_TYPE, _PDF_FILE):
            return PDF
    return name_of_kind(name)


def name_of_kind(name: str) -> str:
    """A kind as tables and messages repeat it."""
    return name.lower() if _KIND_NAME.fullmatch(name.lower()) else UNKNOWN_PART


def _text_of(item: Any) -> str | None:
    """Words of an item of kind text or thinking; None where it has none."""
    if isinstance(item, str):
        return item
    for key in _TEXT_KEYS:
        value = item.get(key)
        # OpenAI's assistants: {type: text, text: {value: …, annotations: […]}}
        if isinstance(value, Mapping):
            value = value.get("value")
        if isinstance(value, str):
            return value
    return None


def _holds_picture(item: SourceRow) -> bool:
    """Whether an item of kind picture holds or names one; else it marks the place of one of the row's column."""
    return any(item.get(key) is not None for key in (*PICTURE_KEYS, "file_id"))


def _parts(item: Any) -> list[MessagePart]:
    """The part that an item of a content is; of a PDF, one for each page."""
    if isinstance(item, DocumentFile):
        pages = [MessagePart(PICTURE, picture={"file": item.path, "page": page}) for page in range(item.pages)]
        return pages or [MessagePart(item.kind)]
    kind = _kind_of(item)
    if kind in (TEXT, THINKING_PART):
        return [MessagePart(kind, _text_of(item))]
    if kind == PICTURE and _holds_picture(item):
        return [MessagePart(kind, picture=picture_of(item))]
    return _pages(item) if kind == PDF else [MessagePart(kind)]


def paths_of_pdfs(item: SourceRow) -> list[str]:
    """The paths of the PDFs that an item of a content names and does not hold."""
    documents = [picture_of(typed) for typed in _items_with_type(item) if _kind_of(typed) == PDF]
    return [path for document in documents if picture_bytes(document) is None and (path := path_of(document))]


def _pages(item: SourceRow) -> list[MessagePart]:
    """A picture for each page of a PDF; where its pages cannot be drawn, one part whose kind says why."""
    document = picture_of(item)
    content = picture_bytes(document)
    if content is None:
        return [MessagePart(PDF)]
    try:
        count = page_count(content)
    except PdfRejected as rejected:
        return [MessagePart(rejected.kind)]
    return [MessagePart(PICTURE, picture={**document, "page": page}) for page in range(count)]


def _is_file_of(file: SourceRow, media_type: str, file_name: re.Pattern[str]) -> bool:
    """Whether a file is of a media type: by what it states, the head of its data: address, or its name, the first."""
    holders = [file, *(value for value in file.values() if isinstance(value, Mapping))]
    for holder in holders:
        stated = stated_media_type(holder)
        if stated is not None:
            return stated.startswith(media_type)
    texts = [value for holder in holders for value in holder.values() if isinstance(value, str)]
    addresses = [text for text in texts if is_data_address(text)]
    if addresses:
        return any(is_data_address(address, media_type) for address in addresses)
    return any(file_name.search(text) for text in texts)
