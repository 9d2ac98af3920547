"""How many different things a message names: its specificity in style control, by rule.

A heuristic for scripts with upper case. Names are runs of words with a capital, with the numbers that follow; what is
capitalised for its place or its layout alone is none, and neither is a word that the text also writes small. Texts in
scripts without case have 0, not null, but for what they write in Latin, Greek or Cyrillic: null would take their
battles out of style control. German nouns all count. Bare numbers, years and quantities are no names: they would make
every calculation specific.
"""

import re
from collections.abc import Iterator

from schemas.signals import NamedEntities

VERSION = "1"

_CASED = "A-Za-z\u00c0-\u0587\u1e00-\u1fff"  # Latin, Greek, Cyrillic and Armenian, with their accents
# Possessive quantifiers: a line of spaces or digits must not take quadratic time.
_LAYOUT = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`"  # code
    r"|^[^\S\n]*+#{1,6}[^\S\n][^\n]*"  # headings
    r"|^[^\S\n]*+(?:(?:[-*+•]|\d++[.)])[^\S\n]++)?\*\*[^*\n]++\*\*",  # bold labels of lines and list items
    re.M | re.S,
)
_WORD = re.compile(rf"(?:Dr|Mrs?|Ms|Prof|St|Mt)\.(?=\s)|\\?[0-9{_CASED}]+(?:[-'’.&][0-9{_CASED}]+)*|[^\W_0-9{_CASED}]+")
_SHORT_FORM = re.compile(r"['’](?:s|m|d|t|re|ve|ll)$")
_START = re.compile(r"[.!?…:;|•\"“”„«»。！？：\n–—]| - ")
"""What stands between two words when the second starts a sentence, a line, a list item, a table cell or a quotation."""


def named_entities(text: str) -> NamedEntities:
    """Distinct names outside code, headings and bold labels."""
    prose = _LAYOUT.sub("\n", text)
    ordinary = {word for word in _WORD.findall(prose) if word == word.lower()}  # the text writes them small as well
    names = {tuple(name) for name in _runs(prose) if not ordinary.issuperset(name)}
    ends = {name[-1] for name in names if len(name) > 1}  # Curie is Marie Curie
    return NamedEntities(entities=sum(len(name) > 1 or name[0] not in ends for name in names))


def _runs(prose: str) -> Iterator[list[str]]:
    """The lower-cased words of every run of words with a capital, and of numbers after one."""
    run: list[str] = []
    last, end, starts = "", 0, True
    for match in _WORD.finditer(prose):
        word, gap = match[0], prose[end : match.start()]
        starts = not last or bool(_START.search(gap)) or (starts and last.isdecimal())  # 1) is a list item's number
        named = _is_name(word, starts)
        goes_on = bool(run) and not starts and gap.isspace() and (named or word.isdecimal())
        if run and not goes_on:
            yield run
            run = []
        if named or goes_on:
            run.append(_SHORT_FORM.sub("", word).lower())
        last, end = word, match.end()
    if run:
        yield run


def _is_name(word: str, starts: bool) -> bool:
    """Whether the word has a capital that its place does not explain; letters, 100W and LaTeX commands are none."""
    shown = _SHORT_FORM.sub("", word)
    unexplained = shown[1:] if starts else shown
    return len(shown) > 1 and shown[0] not in "\\0123456789" and unexplained != unexplained.lower()
