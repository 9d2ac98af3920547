"""Answers of Open WebUI: who wrote one, and the blocks that its server writes into the text of one.

In: an answer, or its content. Out: its model, and its parts in order: text, thoughts, tools and programs that ran.
Shape: `serialize_content_blocks` in backend/open_webui/utils/middleware.py of github.com/open-webui/open-webui;
releases of 2025 on escape the thoughts, earlier ones do not.
"""

import html
import re
from collections.abc import Iterator
from typing import Any

from tasks.ingest.formats.pictures import SourceRow

_OPENING = re.compile(r'<details\s+type="(?P<type>\w+)"')
_CLOSING = "</details>"
_QUOTED = re.compile(r"^(?:>|&gt;) ?", re.MULTILINE)
_ESCAPED_QUOTE = "&gt;"


def answering_model(message: SourceRow) -> Any:
    """The model that wrote an answer: the one that an arena chose, where `model` is the name of the arena."""
    return message.get("selectedModelId") or message.get("model")


def answer_content(text: str) -> str | list[SourceRow]:
    """The content of an answer: its text, or where blocks stand in it, parts of type text, thinking and tool_call."""
    parts: list[SourceRow] = []
    position = 0
    for start, stop, part in _blocks(text):
        parts += [{"type": "text", "text": text[position:start].strip()}, part]
        position = stop
    return [*parts, {"type": "text", "text": text[position:].strip()}] if parts else text


def _blocks(text: str) -> Iterator[tuple[int, int, SourceRow]]:
    """(first character, character behind the last, part) of each block.

    A text is read once, whatever stands in it: where an end is not found, there is none behind it either.
    """
    position = 0
    while (opening := _OPENING.search(text, position)) is not None:
        content_start = text.find(">", opening.end()) + 1
        content_stop = text.find(_CLOSING, content_start)
        if not content_start or content_stop < 0:
            return
        position = content_stop + len(_CLOSING)
        if opening["type"] == "reasoning":
            yield (
                opening.start(),
                position,
                {"type": "thinking", "thinking": _thought(text[content_start:content_stop])},
            )
        else:
            yield opening.start(), position, {"type": "tool_call"}


def _thought(content: str) -> str:
    """The words of a thought, whose lines stand quoted behind a summary."""
    before, _, after = content.partition("</summary>")
    quoted = (after if before.lstrip().startswith("<summary>") else content).strip()
    words = _QUOTED.sub("", quoted).strip()
    return html.unescape(words) if quoted.startswith(_ESCAPED_QUOTE) else words
