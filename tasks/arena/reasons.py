"""Short reasons that a visitor may choose for a vote or a reaction: those shipped, or those of an operator's file.

In: a YAML file of groups of reasons, each with its texts by language. Out: which of them fit a vote, as texts in the
language of the request, and as signed words for the log. A further kind of vote is a group of `ReasonsFile` and a row
in `_GROUPS`.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AfterValidator

from schemas.items.conversation import RecordType
from schemas.row import Row
from tasks.arena.words import ENGLISH, LANGUAGES, page_language
from tasks.runtime.untrusted import read_row

_SHIPPED = Path(__file__).with_name("reasons.yaml")
_is_key = re.compile(r"[a-z][a-z0-9_]{0,39}").fullmatch
"""The form of a reason in ingest, without its sign."""
_TEXT_CHARACTERS_MAX = 60


def _checked(reasons: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """The reasons of a group. Raises ValueError for the first that a page or the log could not hold."""
    for key, texts in reasons.items():
        if not _is_key(key):
            raise ValueError(f"{key[:60]!r} is no key of a reason; give at most 40 of a-z, 0-9 and _, a letter first")
        checked_texts(key, texts)
    return reasons


def checked_texts(key: str, texts: dict[str, str]) -> dict[str, str]:
    """The texts of a key by language. Raises ValueError for the first that a page could not show on one line."""
    if ENGLISH not in texts:
        raise ValueError(f"{key!r} has no English text; add `{ENGLISH}:`, which stands for missing languages")
    if unknown := next((language for language in texts if language not in LANGUAGES), None):
        raise ValueError(f"{key!r} has the language {unknown[:20]!r}; the arena speaks {', '.join(LANGUAGES)}")
    for language, text in texts.items():
        if not text.strip() or not text.isprintable() or len(text) > _TEXT_CHARACTERS_MAX:
            raise ValueError(f"{key!r}, {language}: give a text of one line, of 1 to {_TEXT_CHARACTERS_MAX} characters")
    return texts


ReasonTexts = Annotated[dict[str, dict[str, str]], AfterValidator(_checked)]


class ReasonsFile(Row):
    """A file of reasons (docs/logs.md): in each group, key of a reason -> language -> text."""

    better: ReasonTexts = {}
    """Reasons of a vote for one answer: why it is better; in the log with a plus, on the side that won."""
    tie: ReasonTexts = {}
    """Reasons of a tie; in the log with a plus, on both sides."""
    both_bad: ReasonTexts = {}
    """Reasons of a vote that both answers are bad; in the log with a minus, on both sides."""
    good: ReasonTexts = {}
    """Reasons to like an answer; in the log with a plus."""
    bad: ReasonTexts = {}
    """Reasons to dislike an answer; in the log with a minus."""


class _Group(NamedTuple):
    """The reasons that fit a kind of vote, and where the log has them."""

    name: str
    """Field of `ReasonsFile`."""
    sign: str
    sides: tuple[int, ...]
    """Places of the sides that the reasons are about."""


_GROUPS = {
    RecordType.LEFT_VOTE: _Group("better", "+", (0,)),
    RecordType.RIGHT_VOTE: _Group("better", "+", (1,)),
    RecordType.TIE_VOTE: _Group("tie", "+", (0, 1)),
    RecordType.BOTH_BAD_VOTE: _Group("both_bad", "-", (0, 1)),
    RecordType.UPVOTE: _Group("good", "+", (0,)),
    RecordType.DOWNVOTE: _Group("bad", "-", (0,)),
}


class Reasons:
    """The reasons of an arena."""

    def __init__(self, file: ReasonsFile) -> None:
        self._file = file

    @property
    def file(self) -> dict[str, dict[str, dict[str, str]]]:
        """The groups of reasons as their file has them."""
        return self._file.model_dump()

    def fitting(self, kind: RecordType, language: str = "") -> Mapping[str, str]:
        """Key -> text of the reasons that fit a vote, by default in the language of the request, else in English."""
        spoken = language or page_language()["lang"]
        group = _GROUPS.get(kind)
        reasons: dict[str, dict[str, str]] = getattr(self._file, group.name) if group else {}
        return {key: texts.get(spoken, texts[ENGLISH]) for key, texts in reasons.items()}

    def signed(self, kind: RecordType, keys: Sequence[str], side: int) -> list[str]:
        """The reasons about one side as the log has them, such as `clear+`."""
        group = _GROUPS.get(kind)
        return [f"{key}{group.sign}" for key in keys] if group and side in group.sides else []


def read_reasons(file: Path | None) -> Reasons:
    """The reasons of a file, by default those shipped. Raises BadInput for a file that is none."""
    where_explained = "docs/logs.md has an example"
    return Reasons(read_row(file or _SHIPPED, ReasonsFile, "reasons file", where_explained))
