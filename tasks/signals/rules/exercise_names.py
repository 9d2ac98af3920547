"""Tells names that an exercise or a list of options makes up (`Tom has 5 apples`, `(A) Alicia`) from names of people.

A name in an exercise is one word, in a text that asks for a result or gives one, that holds no other personal data and
in which nobody speaks of themselves. A name in a list of options is all that the option holds, in such a text.
"""

import re
from collections.abc import Sequence

from schemas.signals import PiiSpan

PERSON, EXERCISE_NAME = "person", "exercise_name"
_ASKS = re.compile(
    r"\b(?:how (?:many|much|long|far|old|tall|heavy|fast|often)|calculate|determine|in how many ways)\b"
    r"|\bwh(?:at|ich)(?: \w{1,12}){0,3} (?:number|sum|area|perimeter|volume|probability|value|length|distance|ratio"
    r"|average|percentage|total|time|result|order|figure|picture|image|pattern|piece|shape|square|cell|colou?r|ball|card"
    r"|cube)s?\b|\bwhich of the (?:following|\w{1,12} )"
    r"|\b(?:wie ?viele?|combien|cu[aá]nt[oa]s?|quanti|quante|quant[oa]s|hoeveel|ile)\b"
    r"|\\boxed|\\\(|\\frac|\bthe (?:correct |right )?(?:answer|option) is\b|\bthe final answer\b"
    r"|\$(?=[^$\n]{0,80}(?:[\\^_=]|\d))[^$\n]{1,80}\$|<image\d?>",
    re.I,
)
"""Words with which exercises ask for a result and answers give one, and formulas."""
_OF_THE_WRITER = re.compile(
    r"(?<![\w$\\(])(?:I(?!\w|[.)$])|i(?= (?:am|was|have|had|can|could|should|do|did|will|would|must|may|need|want|give"
    r"|pay|owe|get|know|think)\b)|(?i:i['’]m|my|me|mine|myself|our|ours|ich|mein\w{0,2}|mir|mich|unser\w{0,2}|je|j['’]ai"
    r"|mon|ma|mes|notre|nos|yo|mis?|nuestr[oa]s?|io|mio|mia|nostr[oaie]|eu|meus?|minhas?|noss[oa]s?|ik|mijn|onze?"
    r"|m[oó]j\w{0,3}|moi\w{1,2}|nasz\w{0,4}|friend|neighbou?r|colleague|boss|husband|wife|voisine?)(?!\w))(?!\w)"
)
"""Words with which a writer speaks of themselves and their own people."""
_OPTION = re.compile(
    r"(?:(?<=\n)|\A|(?<=[ \t]))\(?(?P<mark>[A-H])[).:][ \t]{0,3}"
    r"(?P<text>[^\n(]{1,60}?)[ \t.]{0,3}(?=\n|\Z|[ \t]\(?[A-H][).:])"
)


def exercise_names(text: str, spans: Sequence[PiiSpan]) -> list[PiiSpan]:
    """The spans, in which names of exercises and options have the type `exercise_name` instead of `person`."""
    if not any(span.type == PERSON for span in spans):
        return list(spans)
    if any(span.type != PERSON for span in spans) or _OF_THE_WRITER.search(text):
        return list(spans)
    options, asks = _options(text), _ASKS.search(text) is not None

    def made_up(span: PiiSpan) -> bool:
        name = text[span.start : span.end]
        return name in options or (asks and name.isalpha() and name[:1].isupper())

    new = {"type": EXERCISE_NAME}
    return [span.model_copy(update=new) if span.type == PERSON and made_up(span) else span for span in spans]


def _options(text: str) -> set[str]:
    """Contents of the options of a text with at least options A and B."""
    found = [(option["mark"], option["text"]) for option in _OPTION.finditer(text)]
    return {held for _, held in found} if {"A", "B"} <= {mark for mark, _ in found} else set()
