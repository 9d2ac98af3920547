"""Reply formats of other authors' prompts: what the head of a prompt file says, and how a reply is read by it.

In: a prompt file whose first line is `---`. Out: its text without the head, and the pattern that reads replies to it.
What a prompt asks for is a row of `_ASKED`; a format that papers share is an entry of `replies.yaml`.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin

import yaml
from pydantic import Field, ValidationError, create_model

from schemas.benches.bench import FailureLabel
from schemas.benches.generated_results import (
    Looked,
    Solved,
    WrittenAspects,
    WrittenChecks,
    WrittenDescription,
    WrittenQuestion,
)
from schemas.benches.judging import Label
from schemas.errors import BadInput, known_values
from schemas.row import Row
from schemas.tags import TAGS, Criteria, Taxonomy
from tasks.runtime.untrusted import checked_entry, one_line, parse_yaml, read_yaml

_FENCE = "---"
_NAMED = Path(__file__).with_name("replies.yaml")
ONLY_FIELD = "answer"
"""Name of a pattern's group that stands for the only field of a prompt."""
_MAY_LACK = {"guideline": ""}
"""Fields of text that a format may leave out, and what they are then."""
_LIST = re.compile(r"\s*[,;\n]\s*")
Answer = TypeVar("Answer", bound=Row)


class VoteReply(Row):
    """A vote on a battle."""

    vote: Literal["left", "right", "tie", "both bad", "NA"]
    """The better side, or why there is none."""


class VerdictReply(Row):
    """A verdict of Arena-Hard's kind."""

    verdict: Label
    """One of five labels."""


class PreferenceReply(Row):
    """A verdict of VisIT-Bench's kind."""

    better: Literal["A", "B", "none"]
    """The better response."""


_ASKED: dict[str, type[Row]] = {
    **{f"tags/{tag}": create_model(tag, __base__=Row, **{tag: (bool | None, ...)}) for tag in TAGS},  # type: ignore[call-overload]
    "labels/criteria": Criteria,
    "labels/failure_types": FailureLabel,
    "labels/taxonomy": Taxonomy,
    "judges/vote": VoteReply,
    "judges/system": VerdictReply,
    "judges/visit_system": PreferenceReply,
    "bench/aspects": WrittenAspects,
    "bench/description": WrittenDescription,
    "bench/checks": WrittenChecks,
    "bench/question": WrittenQuestion,
    "bench/look": Looked,
    "bench/solve": Solved,
}
"""Prompt -> what a reply to it says."""


class ExampleReply(Row):
    """A reply as a model writes it, and what it says."""

    reply: str = Field(min_length=1)
    """The whole reply."""
    says: Any
    """Fields of the row; of a prompt with one field, the value alone; of a list, the rows."""


class ReplyPattern(Row):
    """How a reply is read."""

    pattern: str = Field(min_length=1, max_length=2000)
    """Regular expression with named groups, in whatever case; `^` and `$` are ends of lines."""
    words: dict[str, dict[str, bool | str | None]] = {}
    """Field -> word of the reply, in small letters -> its meaning."""


class PromptHead(Row):
    """The head of a prompt file."""

    reply: str | ReplyPattern
    """A name of `replies.yaml`, or a pattern."""
    examples: list[ExampleReply] = Field(min_length=2)
    """At least two different replies, which are read when the file is."""


class ReplyFormat(NamedTuple):
    """A pattern and the row that its groups fill."""

    pattern: re.Pattern[str]
    """The groups are fields, or `answer`."""
    words: Mapping[str, Mapping[str, bool | str | None]]
    """Group -> word in small letters -> its meaning."""
    row: type[Row]
    """Class of the row that a reply says."""

    def said(self, text: str) -> Row | None:
        """A reply as a row; None where it does not say all of it, or says different things."""
        rows = _rows_field(self.row)
        matches = [self._values(match) for match in self.pattern.finditer(text)]
        if rows:
            filled = _carried(matches, rows[1])
            return _row(self.row, {rows[0]: filled}) if filled else None
        stated = [_row(self.row, self._named(match)) for match in matches]
        return stated[0] if stated and all(row == stated[0] for row in stated) else None

    def read(self, text: str, answer: type[Answer]) -> Answer | None:
        """A reply as a row of another class with these fields, which may allow less."""
        reply = self.said(text)
        return _row(answer, reply.model_dump()) if reply else None

    def value(self, text: str) -> Any:
        """The only field of a reply; None where it says nothing."""
        reply = self.said(text)
        return getattr(reply, next(iter(self.row.model_fields))) if reply else None

    def broken_up(self, text: str) -> tuple[str, int]:
        """The text with blanks within all that could be read as a reply, and how many times it holds that."""
        return self.pattern.subn(lambda match: " ".join(match[0]), text)

    def _values(self, match: re.Match[str]) -> dict[str, Any]:
        texts = {name: text.strip() for name, text in match.groupdict().items() if text is not None}
        return {name: self.words.get(name, {}).get(text.lower(), text) for name, text in texts.items()}

    def _named(self, values: Mapping[str, Any]) -> dict[str, Any]:
        only = next(iter(self.row.model_fields))
        return {only if name == ONLY_FIELD else name: value for name, value in values.items()}


class PromptFile(NamedTuple):
    """A prompt file in its parts."""

    text: str
    """Text for the model."""
    reply: ReplyFormat | None
    """How its replies are read; None where they are as replies to ours."""


def prompt_file(name: str, content: str) -> PromptFile:
    """A prompt file with or without a head. Raises BadInput for a head without a format that reads its examples."""
    lines = content.splitlines(keepends=True)
    if not lines or lines[0].strip() != _FENCE:
        return PromptFile(content, None)
    where = f"--prompts: the head of {name!r}"
    end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == _FENCE), None)
    if end is None:
        raise BadInput(f"{where} has no end; close it with a line {_FENCE}")
    if name not in _ASKED:
        raise BadInput(f"{where} gives a reply format, and no reply to it is read; the prompts with one: {_listed()}")
    try:
        entry = parse_yaml("".join(lines[1:end]))
    except yaml.YAMLError:
        raise BadInput(f"{where} is not YAML; give reply and examples (docs/models.md)") from None
    head = checked_entry(entry, PromptHead, where, {})
    reply = _format(name, head.reply, where)
    if head.examples[0].reply == head.examples[1].reply:
        raise BadInput(f"{where}: both examples are the same reply; give two that differ")
    for number, example in enumerate(head.examples, 1):
        reply_row = reply.said(example.reply)
        if reply_row is None or reply_row != _example_row(reply.row, example.says):
            read = one_line(str(reply_row.model_dump()), 80) if reply_row else "nothing"
            raise BadInput(f"{where}: example {number} is read as {read}, and says {one_line(str(example.says), 80)}")
    return PromptFile("".join(lines[end + 1 :]).lstrip("\n"), reply)


def _listed() -> str:
    return ", ".join(name for name in _ASKED if not name.startswith("tags/")) + ", tags/*"


@cache
def _named_formats() -> dict[str, ReplyPattern]:
    return {name: ReplyPattern(**entry) for name, entry in read_yaml(_NAMED).items()}


def _format(name: str, name_or_pattern: str | ReplyPattern, where: str) -> ReplyFormat:
    """The format of a prompt's replies, whose groups are checked against what the prompt asks for."""
    if isinstance(name_or_pattern, str) and name_or_pattern not in _named_formats():
        raise BadInput(f"{where}: unknown reply {known_values(name_or_pattern, _named_formats())} Or give a pattern.")
    stated = _named_formats()[name_or_pattern] if isinstance(name_or_pattern, str) else name_or_pattern
    try:
        pattern = re.compile(stated.pattern, re.IGNORECASE | re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadInput(f"{where}: the pattern cannot be read ({error}); give a Python regular expression") from None
    row = _ASKED[name]
    rows = _rows_field(row)
    fields = list((rows[1] if rows else row).model_fields)
    spelled = {ONLY_FIELD: fields[0]} if len(fields) == 1 else {}
    groups = {spelled.get(group, group) for group in pattern.groupindex}
    if unknown := next((group for group in [*sorted(groups), *stated.words] if group not in [*fields, *spelled]), None):
        raise BadInput(f"{where}: unknown field {known_values(unknown, [*fields, *spelled])}")
    if lacking := next((field for field in fields if field not in {*groups, *_MAY_LACK}), None):
        raise BadInput(f"{where}: the pattern has no group (?P<{lacking}>…), which says {lacking}")
    if pattern.match(""):
        raise BadInput(f"{where}: the pattern matches an empty reply; let it demand a word")
    return ReplyFormat(pattern, stated.words, row)


def _rows_field(row: type[Row]) -> tuple[str, type[Row]] | None:
    """Name and row type of the only field of a row that is a list of rows; None for any other row."""
    name, field = next(iter(row.model_fields.items()))
    inner = get_args(field.annotation)[0] if get_origin(field.annotation) is list else None
    return (name, inner) if isinstance(inner, type) and issubclass(inner, Row) else None


def _carried(matches: list[dict[str, Any]], row: type[Row]) -> list[dict[str, Any]]:
    """Rows of matches in their order. One that fills no row is a heading: it holds for those after it."""
    needed = [name for name in row.model_fields if name not in _MAY_LACK]
    heading, rows = dict[str, Any](), list[dict[str, Any]]()
    for values in matches:
        filled = {**_MAY_LACK, **heading, **values}
        if all(name in filled for name in needed):
            rows.append({name: _typed(row, name, value) for name, value in filled.items() if name in row.model_fields})
        else:
            heading = {**heading, **values}
    return rows


def _example_row(row: type[Row], says: Any) -> Row | None:
    """Row that an example claims: from fields, the value of the only field, or rows."""
    rows = _rows_field(row)
    if rows and isinstance(says, list):
        says = {rows[0]: [_MAY_LACK | fields if isinstance(fields, dict) else fields for fields in says]}
    elif not isinstance(says, dict):
        says = {next(iter(row.model_fields)): says}
    return _row(row, says)


def _row(row: type[Answer], values: Mapping[str, Any]) -> Answer | None:
    try:
        return row.model_validate({name: _typed(row, name, value) for name, value in values.items()})
    except ValidationError:
        return None


def _typed(row: type[Row], name: str, value: Any) -> Any:
    """A text as a field takes it: a choice in the field's own capitals and blanks, a list split at its separators.

    Separators are commas, semicolons and line breaks.
    """
    field = row.model_fields.get(name)
    if field is None or not isinstance(value, str):
        return value
    if field.annotation == list[str]:
        return [part for part in _LIST.split(value) if part]
    return {_without_blanks(choice): choice for choice in _choices(field.annotation)}.get(_without_blanks(value), value)


def _choices(annotation: Any) -> list[str]:
    """The texts that a field may be; empty where it may be any."""
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return [choice.value for choice in annotation]
    if get_origin(annotation) is Literal:
        return [choice for choice in get_args(annotation) if isinstance(choice, str)]
    return [choice for part in get_args(annotation) for choice in _choices(part)]


def _without_blanks(text: str) -> str:
    return "".join(text.casefold().split())
