"""The label of a verdict, from the text that a judge wrote."""

import html
import re
import unicodedata

from schemas.judging import Label

_INNER = r"([^\[\]［］\n]{1,40})"
_DOUBLE = re.compile(rf"[\[［]{{2}}{_INNER}[\]］]{{2}}")
_MARKED = _DOUBLE, re.compile(rf"[\[［]{_INNER}[\]］]")
"""Arena-Hard's two patterns; the second is read only where the first finds nothing. WildVision-Bench has the first."""
_LIKE_A_LABEL = re.compile(r"[AB](?:[<>=]+[AB])?", re.IGNORECASE)
_ARROWS = str.maketrans({"»": ">>", "«": "<<", "≫": ">>", "≪": "<<"})
_SPELLINGS = {
    **{label.value: label for label in Label},
    "A<<B": Label.B_MUCH_BETTER,
    "A<B": Label.B_BETTER,
    "B=A": Label.TIE,
    "B<A": Label.A_BETTER,
    "B<<A": Label.A_MUCH_BETTER,
}
"""Every spelling of a label in plain characters and without blanks."""


def parse_label(text: str) -> Label | None:
    """The label in double square brackets, or else in single ones; None without one, or with several different ones.

    Both spellings are read: `A<B` is `B>A`. Anything else in brackets, such as [[A]], is no label.
    """
    found = labels_in(text)
    return found.pop() if len(found) == 1 else None


def labels_in(text: str) -> set[Label]:
    """Every label in the text."""
    return next(filter(None, (_known(marked.findall(text)) for marked in _MARKED)), set())


def labelled(mark: str) -> Label | None:
    """The label that a mark without its brackets says, such as `A>>B`, `A >> B`, `A&gt;&gt;B` or `A » B`."""
    return _SPELLINGS.get(_plain(mark))


def without_labels(text: str) -> tuple[str, int]:
    """The text with round brackets around what double square ones hold of a label, and how many there were.

    So a quote of it is no label. `[[A]]` counts too.
    """
    found = [mark for mark in _DOUBLE.finditer(text) if _LIKE_A_LABEL.fullmatch(_plain(mark[1]))]
    for mark in reversed(found):
        text = f"{text[: mark.start(1)]}({mark[1]}){text[mark.end(1) :]}"
    return text, len(found)


def _known(marks: list[str]) -> set[Label]:
    return {label for mark in marks if (label := labelled(mark))}


def _plain(mark: str) -> str:
    """The mark without blanks and HTML escapes, its full-width characters and double arrows as ASCII."""
    ascii_signs = unicodedata.normalize("NFKC", html.unescape(mark)).translate(_ARROWS)
    return "".join(ascii_signs.split())
