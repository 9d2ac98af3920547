"""Markdown elements of a message, as arena leaderboards count them for style control (FastChat `add_markdown_info`)."""

import re

from schemas.signals import Markdown

VERSION = "1"

# Line starts are [^\S\n]*, not \s*: a text of nothing but line breaks must not take quadratic time.
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.S)
_HEADERS = {f"h{level}": re.compile(rf"^#{{{level}}}\s+\S", re.M) for level in range(1, 7)}
_ORDERED = re.compile(r"^[^\S\n]*\d+\.\s", re.M)
_UNORDERED = re.compile(r"^[^\S\n]*[-*+]\s", re.M)
_BOLD_STARS = re.compile(r"\*\*[^*\n]+\*\*")
_BOLD_UNDERSCORES = re.compile(r"__[^_\n]+__")


def markdown(text: str) -> Markdown:
    """Counts of headers, list items and bold runs outside fenced code."""
    prose = _FENCED.sub("", text)
    return Markdown(
        **{name: len(form.findall(prose)) for name, form in _HEADERS.items()},
        ordered=len(_ORDERED.findall(prose)),
        unordered=len(_UNORDERED.findall(prose)),
        bold_stars=len(_BOLD_STARS.findall(prose)),
        bold_underscores=len(_BOLD_UNDERSCORES.findall(prose)),
    )
