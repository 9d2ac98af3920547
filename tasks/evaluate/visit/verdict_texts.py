"""The verdict of a judge under `visit`, from the text that it wrote."""

import json
import re

from schemas.judging import Label
from tasks.providers.capabilities import ReplyShape

SHAPE = ReplyShape(
    "verdict",
    {
        "type": "object",
        "properties": {"reasons": {"type": "string"}, "better": {"type": "string", "enum": ["A", "B", "none"]}},
        "required": ["reasons", "better"],
        "additionalProperties": False,
    },
)
"""Reasons first: a model writes the keys in this order."""
_STATED = re.compile(r"\[\[\s*(A|B|none)\s*\]\]", re.IGNORECASE)
_EXTRACTED = re.compile(r"\W*(?:response\s+)?(A|B|unknown)\W*", re.IGNORECASE)
_LABELS = {"a": Label.A_BETTER, "b": Label.B_BETTER}


def verdict_in(text: str) -> tuple[bool, Label | None]:
    """Whether the text states a verdict, and which; null where it says that there is none.

    Of a JSON object its `better` counts, of free text the last verdict in double square brackets.
    """
    if (better := _structured(text)) is None:
        stated = _STATED.findall(text)
        better = stated[-1] if stated else None
    return better is not None, _LABELS.get((better or "").lower())


def extracted(text: str) -> Label | None:
    """The label in the reply to the question what a judge said; None unless it is one word for one side."""
    found = _EXTRACTED.fullmatch(text.strip())
    return _LABELS.get(found[1].lower()) if found else None


def _structured(text: str) -> str | None:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    better = said.get("better") if isinstance(said, dict) else None
    return better if better in ("A", "B", "none") else None
