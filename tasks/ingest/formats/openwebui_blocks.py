"""What Open WebUI's server writes into the text of an answer beside the words: thoughts, tools and programs that ran.

In: the content of an answer. Out: its parts in order. Shape: `serialize_content_blocks` in backend/open_webui/utils/
middleware.py of github.com/open-webui/open-webui; releases of 2025 on escape the thoughts, earlier ones do not.
"""

import html
import re

from tasks.ingest.formats.pictures import SourceRow

_BLOCK = re.compile(r'<details\s+type="(?P<type>\w+)"[^>]*>(?P<content>.*?)</details>\s*', re.DOTALL)
_SUMMARY = re.compile(r"<summary>.*?</summary>", re.DOTALL)
_QUOTED = re.compile(r"^(?:>|&gt;) ?", re.MULTILINE)
_ESCAPED_QUOTE = "&gt;"


def answer_content(text: str) -> str | list[SourceRow]:
    """The content of an answer: its text, or where blocks stand in it, parts of type text, thinking and tool_call."""
    parts: list[SourceRow] = []
    position = 0
    for block in _BLOCK.finditer(text):
        parts.append({"type": "text", "text": text[position : block.start()].strip()})
        position = block.end()
        if block["type"] == "reasoning":
            parts.append({"type": "thinking", "thinking": _thought(block["content"])})
        else:
            parts.append({"type": "tool_call"})
    return [*parts, {"type": "text", "text": text[position:].strip()}] if parts else text


def _thought(content: str) -> str:
    """The words of a thought, whose lines stand quoted behind a summary."""
    quoted = _SUMMARY.sub("", content).strip()
    words = _QUOTED.sub("", quoted).strip()
    return html.unescape(words) if quoted.startswith(_ESCAPED_QUOTE) else words
