"""Makes text from logs safe to print on terminals and to write to CSV and Markdown files. HTML templates escape it."""

import json
import re
from typing import Any

_STEERING = r"\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_CONTROL = re.compile(rf"[\x00-\x1f{_STEERING}]+")
_UNSHOWN = re.compile(rf"[{_STEERING}\ud800-\udfff]")
_FORMULA = tuple("=+-@＝＋－＠")  # spreadsheets of some countries read the wide forms too
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+.!|>~<&-])")


def one_line(text: str, characters_max: int = 200) -> str:
    """The text on one line, without control and direction characters, cut to a length."""
    flat = _CONTROL.sub(" ", text).strip()
    return flat if len(flat) <= characters_max else flat[: characters_max - 1] + "…"


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON with every script as it is, except that characters which control terminals are escaped.

    So are unpaired surrogates, which cannot be printed. Values that JSON cannot represent become their `str`.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    return _UNSHOWN.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def csv_cell(text: str) -> str:
    """A cell that no spreadsheet reads as a formula."""
    flat = one_line(text)
    return f"'{flat}" if flat.startswith(_FORMULA) else flat


def markdown_text(text: str, characters_max: int = 200) -> str:
    """Text that Markdown and HTML show unchanged, also inside a table."""
    return _MARKDOWN.sub(lambda match: f"&#{ord(match.group())};", one_line(text, characters_max))
