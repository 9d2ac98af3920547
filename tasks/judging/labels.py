"""The verdict in a judge's text: five labels (Arena-Hard), A or B (VisIT-Bench), or a vote of people; and its words."""

import html
import json
import re
import unicodedata
from contextlib import suppress

from schemas.benches.judging import Label
from schemas.items.conversation import Winner
from tasks.providers.capabilities import ReplyShape

_INNER = r"([^\[\]［］]{1,40})"
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
VERDICT_SHAPE = ReplyShape(
    "verdict",
    {
        "type": "object",
        "properties": {"reasons": {"type": "string"}, "better": {"type": "string", "enum": ["A", "B", "none"]}},
        "required": ["reasons", "better"],
        "additionalProperties": False,
    },
)
"""A verdict as JSON. Reasons first: a model writes the keys in this order."""
_STATED = re.compile(r"\[\[\s*(A|B|none)\s*\]\]", re.IGNORECASE)
_EXTRACTED = re.compile(r"\W*(?:response\s+)?(A|B|unknown)\W*", re.IGNORECASE)
_SIDES = {"a": Label.A_BETTER, "b": Label.B_BETTER}
_VOTE = re.compile(r"\[\[\s*(left|right|tie|both\s+bad|na)\s*\]\]", re.IGNORECASE)
_VOTES = {"left": Winner.MODEL_A, "right": Winner.MODEL_B, "tie": Winner.TIE, "both bad": Winner.BOTH_BAD}


def parse_label(text: str) -> Label | None:
    """The label in double square brackets, or else in single ones; None without one, or with several different ones.

    Both spellings are read: `A<B` is `B>A`. Anything else in brackets, such as [[A]], is no label.
    """
    found = labels_in(text)
    return found.pop() if len(found) == 1 else None


def labels_in(text: str) -> set[Label]:
    """Every label in the text."""
    found = ({label for mark in form.findall(text) if (label := labelled(mark))} for form in _MARKED)
    return next(filter(None, found), set())


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


def _plain(mark: str) -> str:
    """The mark without blanks (of any width) and HTML escapes, its full-width characters and double arrows as ASCII."""
    ascii_signs = unicodedata.normalize("NFKC", html.unescape(mark)).translate(_ARROWS)
    return "".join(sign for sign in ascii_signs if not sign.isspace() and unicodedata.category(sign) != "Cf")


def verdict_in(text: str) -> tuple[bool, Label | None]:
    """Whether the text states a verdict, and which; null where it says that there is none.

    Of a JSON object its `better` counts, of free text the last verdict in double square brackets.
    """
    said = None
    with suppress(ValueError, RecursionError):
        said = json.loads(text)
    better = said.get("better") if isinstance(said, dict) else None
    if better not in ("A", "B", "none"):
        better = next(reversed(_STATED.findall(text)), None)
    return better is not None, _SIDES.get((better or "").lower())


def extracted(text: str) -> Label | None:
    """The label in the reply to the question what a judge said; None unless it is one word for one side."""
    found = _EXTRACTED.fullmatch(text.strip())
    return _SIDES.get(found[1].lower()) if found else None


def parse_vote(text: str) -> Winner | None:
    """The one vote in double square brackets; None for NA, for none, and for several different ones."""
    found = {" ".join(mark.lower().split()) for mark in _VOTE.findall(text)}
    return _VOTES.get(found.pop()) if len(found) == 1 else None
