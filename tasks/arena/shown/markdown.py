"""Markdown of strangers made harmless: its HTML and its images are shown as text.

What counts as code differs between parsers, so nothing depends on it: every `<` that could begin a tag is broken, by an
entity, or, where it looks like code and an entity would be shown as it is, by a character without width after it. As
it stands, for people to copy, is only what every parser calls code: a fence after an empty line, or at the beginning,
in a text that has nothing which could hold the fence or end it earlier.
"""

import re

_JOINER = "\u2060"
_TAG = re.compile(r"<(?=[/!?A-Za-z])(?!/?(?:br|sub|sup)\s*/?>)")
_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]*`)", re.DOTALL)
_FENCE = re.compile(
    r"(?:\A|(?<=\n\n))```[A-Za-z0-9+#-]{0,20}\n(?:(?![^\n]*(?:```|~~~))[^\n]*(?:\n|\Z))*(?:```(?=\n|\Z)|\Z)"
)
_HOLDS_FENCES = re.compile(r"```|~~~|\]:|\$\$|\\\[|\\\(|\r")
"""Marks of what could hold a fence or end it: other fences, definitions of links, formulas, other ends of lines."""
_FORMULA = re.compile(r"\$\$|\\\[|\\\(")


def harmless(text: str) -> str:
    """Markdown without HTML, but for line breaks and raised or lowered characters, and without images."""
    shown: list[str] = []
    last = 0
    for fence in _FENCE.finditer(text):
        if _HOLDS_FENCES.search(text, last, fence.start()) or _FORMULA.search(fence[0]):
            break
        shown += [_without_tags(text[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join(shown) + _without_tags(text[last:])


def _without_tags(text: str) -> str:
    """No tag and no image in any reading of the text."""
    parts = _CODE.split(text)
    return "".join(_joined(part) if place % 2 else _as_entities(part) for place, part in enumerate(parts))


def _as_entities(text: str) -> str:
    return _TAG.sub("&lt;", text).replace("![", "!&#91;")  # an image would be asked for at any address


def _joined(text: str) -> str:
    return _TAG.sub("<" + _JOINER, text).replace("![", f"!{_JOINER}[")
