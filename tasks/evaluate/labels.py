"""The label of a verdict, from the text that a judge wrote."""

import re

from schemas.judging import Label

_MARKED = re.compile(r"\[\[([AB<>=]+)\]\]"), re.compile(r"\[([AB<>=]+)\]")
"""Arena-Hard's patterns; the second is read only where the first finds nothing. WildVision-Bench has the first."""
SPELLINGS = {
    **{label.value: label for label in Label},
    "A<<B": Label.B_MUCH_BETTER,
    "A<B": Label.B_BETTER,
    "B=A": Label.TIE,
    "B<A": Label.A_BETTER,
    "B<<A": Label.A_MUCH_BETTER,
}
"""Every spelling of a label."""


def parse_label(text: str) -> Label | None:
    """The label in double square brackets, or else in single ones; None without one, or with several different ones.

    Both spellings are read: `A<B` is `B>A`. Anything else in brackets, such as [[A]], is no label.
    """
    found = labels_in(text)
    return found.pop() if len(found) == 1 else None


def labels_in(text: str) -> set[Label]:
    """Every label in the text."""
    return next(filter(None, (_known(marked.findall(text)) for marked in _MARKED)), set())


def _known(marks: list[str]) -> set[Label]:
    return {SPELLINGS[mark] for mark in marks if mark in SPELLINGS}
