"""Texts compared by their words, and options in words. Case, articles, punctuation and number words do not matter."""

import re
from collections.abc import Iterable, Sequence

_ARTICLES = frozenset({"a", "an", "the"})
_SMALL = frozenset({"of", "and", "in", "on", "with", "for", "to", "at", "their", "its", "is", "are"}) | _ARTICLES
_NUMBER_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
_NUMBERS = {word: str(number) for number, word in enumerate(_NUMBER_WORDS)}
_WORD = re.compile(r"[^\W_]+")
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
ALIKE_MIN = 0.8
"""Share of words in common from which one name repeats another."""


def words_of(text: str) -> list[str]:
    """Words of a text in lower case, without articles, number words as digits."""
    all_words = _WORD.findall(text.lower())
    kept_words = [word for word in all_words if word not in _ARTICLES] or all_words  # an option may be the letter A
    return [_NUMBERS.get(word, word) for word in kept_words]


def same(first: str, second: str) -> bool:
    """Whether two short answers say the same."""
    return words_of(first) == words_of(second)


def repeats(name: str, earlier: Iterable[str]) -> bool:
    """Whether a name shares ALIKE_MIN of its words (Jaccard) with one that is known, small words left out."""
    name_words, *others = ({word for word in words_of(text) if word not in _SMALL} for text in (name, *earlier))
    return any(len(name_words & other) / max(1, len(name_words | other)) >= ALIKE_MIN for other in others)


def mentions(text: str, phrase: str) -> bool:
    """Whether a text has all words of a phrase, small words left out."""
    phrase_words = {word for word in words_of(phrase) if word not in _SMALL}
    return bool(phrase_words) and phrase_words <= set(words_of(text))


def content_words(text: str) -> frozenset[str]:
    """The words of a text, small words left out, plurals as singulars."""
    return frozenset(_singular(word) for word in words_of(text) if word not in _SMALL)


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us")) else word


def named_letters(question: str, options: Sequence[str]) -> str:
    """A question with its options, one a line."""
    return "\n".join([question, *(f"{ALPHABET[place]}. {option}" for place, option in enumerate(options))])
