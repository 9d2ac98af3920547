"""Makes text from logs safe to print on terminals and to write to CSV and Markdown files. HTML templates escape it."""

import json
import re
from typing import Any

_INVISIBLE = r"\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_CONTROL = re.compile(rf"[\x00-\x1f{_INVISIBLE}]+")
_ESCAPED = re.compile(rf"[{_INVISIBLE}\ud800-\udfff]")
_FORMULA = tuple("=+-@＝＋－＠")  # spreadsheets of some locales read the wide forms too
_MARKDOWN = re.compile(
    r"[\\`*{}\[\]#+!|>~<&]"
    r"|(?<![^\W_])[_-]|[_-](?![^\W_])"  # inside a word both mean nothing
    r"|(?<=\d)\)"  # marks a list
    r"|\.(?!(?<=\d\.)\d|(?<=[^\W\d_]\.)(?:\s|$))"  # marks a list or makes a link, except in numbers and after words
)


def one_line(text: str, characters_max: int = 200) -> str:
    """The text on one line, without control and direction characters, cut to a length."""
    flat = _CONTROL.sub(" ", text).strip()
    return flat if len(flat) <= characters_max else flat[: characters_max - 1] + "…"


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON with readable Unicode; characters that control terminals and unpaired surrogates are escaped.

    Values that JSON cannot represent become their `str`.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def csv_cell(text: str) -> str:
    """A cell that spreadsheets do not read as a formula."""
    flat = one_line(text)
    return f"'{flat}" if flat.startswith(_FORMULA) else flat


def csv_text(text: str, characters_max: int) -> str:
    """A whole text as a cell: its lines stay, other control characters go, and spreadsheets read no formula."""
    clean = "\n".join(_CONTROL.sub(" ", line) for line in text.splitlines())
    cell = f"'{clean}" if clean.lstrip().startswith(_FORMULA) else clean
    return cell if len(cell) <= characters_max else f"{cell[: characters_max - 1]}…"


def markdown_text(text: str, characters_max: int = 200) -> str:
    """Text escaped for Markdown and HTML, also inside a table. Names with dashes and numbers stay readable."""
    return _MARKDOWN.sub(lambda match: f"&#{ord(match.group())};", one_line(text, characters_max))
