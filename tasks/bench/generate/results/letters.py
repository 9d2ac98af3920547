"""The letter that an answer names: one clear letter, or none."""

import re

from tasks.bench.generate.items import LETTERS

_BRACKETED = re.compile(r"\[\s{0,3}([A-Z])\s{0,3}\]")
_ANSWER = r"(?i:\banswer(?: is)?:?) {0,3}\*{0,2}"
_NO_OTHER = r"(?!,? {1,3}(?:or|and) {1,3}[(\[*]{0,3}[A-Z]\b)"
"""Not one of several letters, as in A or B."""
_SAID_BRACKETED = re.compile(_ANSWER + r"\[\s{0,3}([A-Z])\s{0,3}\]" + _NO_OTHER)
_NO_ARTICLE = r"(?!(?<=A) {1,3}(?!(?:because|since|as)\b)[a-z])"
"""Not the article, as in A cat."""
_SAID = re.compile(_ANSWER + r"\(?\*{0,2}([A-Z])\b(?!')" + _NO_OTHER + _NO_ARTICLE)
_ALONE = re.compile(r"\s*[(\[*]{0,3}([A-Z])[)\].*:]{0,4}\s*")


def letter_of(text: str, options: int) -> str | None:
    """The letter in brackets; without any, the letter alone or after the word answer. None for several, or another.

    Of several letters in brackets the one after the word answer counts. Only capital letters are read: a is an article.
    """
    found = set(_BRACKETED.findall(text))
    if len(found) > 1:
        found = set(_SAID_BRACKETED.findall(text))
    elif not found:
        alone = _ALONE.fullmatch(text[:40]) if len(text) <= 40 else None
        found = {alone[1]} if alone else set(_SAID.findall(text))
    return next(iter(found)) if len(found) == 1 and found <= set(LETTERS[:options]) else None
