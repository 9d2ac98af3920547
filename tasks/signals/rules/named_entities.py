"""Number of distinct named entities of a message, by rule; style control uses it as specificity.

A heuristic for scripts with upper case. A name is a run of capitalised words with the numbers that follow. Words that
are capitalised only for their position or layout do not count, nor do words that also occur in lower case. All German
nouns count. Numbers, years and quantities alone do not count. Texts in scripts without case have 0 (apart from Latin,
Greek or Cyrillic words in them) and not null, because null would exclude their battles from style control.
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
"""Text between two words of which the second starts a sentence, line, list item, table cell or quotation."""


def named_entities(text: str) -> NamedEntities:
    """Distinct names outside code, headings and bold labels."""
    prose = _LAYOUT.sub("\n", text)
    ordinary = {word for word in _WORD.findall(prose) if word == word.lower()}  # also occur in lower case
    names = {tuple(name) for name in _runs(prose) if not ordinary.issuperset(name)}
    ends = {name[-1] for name in names if len(name) > 1}  # Curie is Marie Curie
    return NamedEntities(entities=sum(len(name) > 1 or name[0] not in ends for name in names))


def _runs(prose: str) -> Iterator[list[str]]:
    """Lower-cased words of each run of capitalised words with the numbers after them."""
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
    """Whether the word has a capital that its position does not explain; letters, 100W and LaTeX do not count."""
    shown = _SHORT_FORM.sub("", word)
    unexplained = shown[1:] if starts else shown
    return len(shown) > 1 and shown[0] not in "\\0123456789" and unexplained != unexplained.lower()
