r"""Tells which of many patterns may match in which of many texts, before any of them is searched.

A pattern of Python becomes a necessary condition: a regular expression that matches in every text in which the pattern
does, of the kind that automata read in one pass over a text (Rust's, which polars has). Parts that they cannot read
are loosened until they can: most lookarounds, characters beyond ASCII, large counts; a kind of part that is not known
here matches anything, and so lets more texts pass. Nobody writes such conditions by hand, and a text that passes is
still searched by the pattern itself. A further kind of part is a case in `_Condition._node`.
"""

import re
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import compress
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Generic, NamedTuple, TypeVar

import polars as pl

FEWEST = 8
"""Fewest texts for which the automata are asked: with fewer texts they would save no time."""
TOGETHER = 28
"""Most patterns of one automaton: with more, it has more states than it keeps, and is a thousand times slower.

Patterns of numbers have more states than those that begin with a word: a caller gives a quarter as many together.
"""
COUNT_MAX, CLASS_COUNT_MAX = 6, 24
"""Largest counts that are kept of what is repeated, and of one character that is."""
_ASCII = frozenset(range(128))
_BEYOND = r"\x{80}-\x{10ffff}"
_FOLDED = {0x130: "i", 0x131: "i", 0x17F: "s", 0x212A: "k"}
"""Characters beyond ASCII that are an ASCII letter for Python where case does not matter."""
_CATEGORIES = {
    category: (frozenset(code for code in _ASCII if re.match(sign, chr(code))), r"\p{Nd}" if sign == r"\d" else _BEYOND)
    for category, sign in (
        (ops.CATEGORY_DIGIT, r"\d"), (ops.CATEGORY_NOT_DIGIT, r"\D"), (ops.CATEGORY_SPACE, r"\s"),
        (ops.CATEGORY_NOT_SPACE, r"\S"), (ops.CATEGORY_WORD, r"\w"), (ops.CATEGORY_NOT_WORD, r"\W"),
    )
}  # fmt: skip
_WORD = _CATEGORIES[ops.CATEGORY_WORD][0]
_NO_WORD_BEFORE, _NO_WORD_AFTER = r"(?-u:\b{start-half})", r"(?-u:\b{end-half})"
"""No letter, digit or underscore of ASCII stands there."""
_ANYTHING = "(?s:.*)"
Search = TypeVar("Search")
Nodes = Sequence[tuple[Any, Any]]


class Sieve(Generic[Search]):
    """Searches, each with its patterns: a search finds nothing in a text in which none of its patterns matches."""

    def __init__(self, searches: Mapping[Search, Sequence[re.Pattern[str]]]) -> None:
        self._searches = tuple(searches)
        self._columns = [
            pl.any_horizontal(_automata(forms)).alias(str(place)) for place, forms in enumerate(searches.values())
        ]

    def passing(self, texts: Sequence[str]) -> list[tuple[Search, ...]]:
        """For each text (without surrogates), the searches that may find anything in it, in their order."""
        if len(texts) < FEWEST:
            return [self._searches] * len(texts)
        rows = pl.DataFrame({"text": texts}, schema={"text": pl.String}).select(self._columns)
        return [tuple(compress(self._searches, row)) for row in rows.iter_rows()]


def _automata(forms: Sequence[re.Pattern[str]]) -> list[pl.Expr]:
    """Columns that say whether a text may have a match, each of up to TOGETHER patterns."""
    conditions, starts = [necessary(form) for form in forms], range(0, len(forms), TOGETHER)
    return [pl.col("text").str.contains("|".join(conditions[start : start + TOGETHER])) for start in starts]


def necessary(form: re.Pattern[str]) -> str:
    """A regular expression of Rust that matches in every text in which a pattern of Python matches."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # Python has no nested sets yet
        tree = parser.parse(form.pattern, form.flags)
    return _Condition().sequence(list(tree), tree.state.flags, first=True, last=True)


class _Condition:
    """Conditions of the parts of one pattern. `first` and `last` say that a part begins or ends the pattern."""

    def __init__(self) -> None:
        self._groups: dict[int, str] = {}

    def sequence(self, nodes: Nodes, flags: int, *, first: bool = False, last: bool = False) -> str:
        """Condition of nodes one after another."""
        end = len(nodes) - 1
        parts = (
            self._node(node, flags, first=first and place == 0, last=last and place == end)
            for place, node in enumerate(nodes)
        )
        return f"(?:{''.join(parts)})"

    def _node(self, node: tuple[Any, Any], flags: int, *, first: bool, last: bool) -> str:
        op, argument = node
        if (characters := _characters(node, flags)) is not None:
            return _written(characters.perhaps, characters.beyond)
        if op is ops.BRANCH:
            return f"(?:{'|'.join(self.sequence(branch, flags, first=first, last=last) for branch in argument[1])})"
        if op is ops.SUBPATTERN:
            group, added, removed, nodes = argument
            inside = (flags | added) & ~removed
            if group:
                self._groups[group] = _ANYTHING if inside & re.IGNORECASE else self.sequence(nodes, inside)
            return self.sequence(nodes, inside, first=first, last=last)
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            return self._repeat(argument, flags, at_edge=first or last)
        if op is ops.ASSERT:
            return self.sequence(argument[1], flags) if (first if argument[0] < 0 else last) else ""
        if op is ops.ASSERT_NOT:
            direction, nodes = argument
            is_before = direction < 0
            return self._nothing_beside(nodes, flags, is_before=is_before, at_edge=first if is_before else last)
        if op is ops.ATOMIC_GROUP:
            return self.sequence(argument, flags)
        if op is ops.AT:
            return f"(?:{_NO_WORD_BEFORE}|{_NO_WORD_AFTER})" if argument is ops.AT_BOUNDARY else ""
        return self._groups.get(argument, _ANYTHING) if op is ops.GROUPREF else _ANYTHING

    def _repeat(self, argument: tuple[int, int, Nodes], flags: int, *, at_edge: bool) -> str:
        """Condition of what is repeated; at the edge of a match, the fewest times are enough."""
        least, most, nodes = argument
        count_max = CLASS_COUNT_MAX if len(nodes) == 1 and _characters(nodes[0], flags) else COUNT_MAX
        least, most = min(least, count_max), least if at_edge else most
        return f"{self.sequence(nodes, flags)}{{{least},{'' if most > count_max else most}}}"

    def _nothing_beside(self, nodes: Nodes, flags: int, *, is_before: bool, at_edge: bool) -> str:
        """Condition of what may not stand beside a part: of that, only single characters count."""
        branches = nodes[0][1][1] if len(nodes) == 1 and nodes[0][0] is ops.BRANCH else [nodes]
        alone = [_characters(branch[0], flags) for branch in branches if len(branch) == 1]
        excluded = frozenset[int]().union(*(characters.surely for characters in alone if characters))
        if at_edge and excluded:
            return f"(?:{'^' if is_before else '$'}|{_written(_ASCII - excluded, _BEYOND)})"
        return (_NO_WORD_BEFORE if is_before else _NO_WORD_AFTER) if excluded >= _WORD else ""


class _Characters(NamedTuple):
    """The characters that one node matches."""

    surely: frozenset[int]
    """Codes of those in ASCII."""
    perhaps: frozenset[int]
    """Codes in ASCII of at least all of them."""
    beyond: str
    """Ranges of at least all others."""


def _characters(node: tuple[Any, Any], flags: int) -> _Characters | None:
    """The characters of a node that matches exactly one; None for other nodes."""
    op, argument = node
    if op not in (ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN):
        return None
    return _one_character(op, tuple(argument) if op is ops.IN else argument, flags & (re.IGNORECASE | re.DOTALL))


@cache  # patterns have some thousands of such nodes, and few that differ
def _one_character(op: Any, argument: Any, flags: int) -> _Characters:
    """The characters of a node that matches exactly one."""
    parts = argument if op is ops.IN else [(ops.LITERAL, argument)]
    if op is ops.ANY:
        parts = [] if flags & re.DOTALL else [(ops.LITERAL, ord("\n"))]
    negated = op in (ops.NOT_LITERAL, ops.ANY) or (ops.NEGATE, None) in parts
    surely, folded, beyond = set[int](), set[int](), set[str]()
    for kind, value in parts:
        if kind is ops.CATEGORY:
            surely |= _CATEGORIES[value][0]
            beyond.add(_CATEGORIES[value][1])
        elif kind is not ops.NEGATE:
            low, high = value if kind is ops.RANGE else (value, value)
            surely |= {*range(low, min(high + 1, 128))}
            beyond |= {_range_beyond(max(low, 128), high, flags)} if high > 127 else set()
            folded |= {ord(letter) for code, letter in _FOLDED.items() if low <= code <= high}
    if flags & re.IGNORECASE:
        surely |= {ord(chr(code).swapcase()) for code in surely}
        folded |= {ord(chr(code).upper()) for code in folded}
        beyond |= {rf"\x{{{code:x}}}" for code, letter in _FOLDED.items() if ord(letter) in surely}
    perhaps = surely | (folded if flags & re.IGNORECASE else set())
    if negated:
        return _Characters(_ASCII - perhaps, _ASCII - surely, _BEYOND)
    return _Characters(frozenset(surely), frozenset(perhaps), _BEYOND if _BEYOND in beyond else "".join(sorted(beyond)))


def _range_beyond(low: int, high: int, flags: int) -> str:
    """A range beyond ASCII; where case does not matter all that is beyond it, unless for one character without case."""
    has_case = len({chr(low), chr(low).lower(), chr(low).upper(), chr(low).title()}) > 1
    return _BEYOND if flags & re.IGNORECASE and (low < high or has_case) else f"\\x{{{low:x}}}-\\x{{{high:x}}}"


@cache
def _written(ascii_codes: frozenset[int], beyond: str) -> str:
    """A class of these characters."""
    edges = [code for code in range(129) if (code in ascii_codes) != (code - 1 in ascii_codes)]
    runs = (f"\\x{low:02x}-\\x{high - 1:02x}" for low, high in zip(edges[::2], edges[1::2], strict=True))
    return f"[{''.join(runs)}{beyond}]"
