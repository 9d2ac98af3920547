"""Text from logs on its way into CSV and Markdown files that people open. HTML pages escape by themselves."""

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+")
_FORMULA = tuple("=+-@＝＋－＠")  # spreadsheets of some countries read the wide forms too
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+.!|>~<&-])")


def one_line(text: str, characters_max: int = 200) -> str:
    """The text on one line, without control and direction characters, cut to a length."""
    flat = _CONTROL.sub(" ", text).strip()
    return flat if len(flat) <= characters_max else flat[: characters_max - 1] + "…"


def csv_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    flat = one_line(text)
    return f"'{flat}" if flat.startswith(_FORMULA) else flat


def markdown_text(text: str) -> str:
    """Text that Markdown and HTML show as it is, also inside a table."""
    return _MARKDOWN.sub(lambda match: f"&#{ord(match.group())};", one_line(text))
