"""Messages of a row -> the turns of a log's state, user and assistant in turn, each picture where it stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.items.reject import LineRejected, RejectReason
from tasks.ingest.formats.parts import (
    ASSISTANT,
    PICTURE,
    SYSTEM,
    TEXT,
    THINKING,
    TOOL,
    USER,
    MessagePart,
    Row,
    content_in,
    is_place,
    is_plain,
    messages_of,
    parts_of,
    role_of,
)
from tasks.ingest.formats.pictures import listed
from tasks.ingest.log_line import MARK

READ_ROLES = (USER, ASSISTANT)
"""Messages of other roles are instructions, or what tools returned."""
_NO_NAME = ""
"""In place of the name of a picture that an adapter did not name; it becomes a reject."""


@dataclass
class _Turn:
    """Everything that one side says until the other one answers."""

    role: str
    pieces: list[str]
    """Texts, with what stands between them."""
    is_null: bool = False
    """Whether the row has null in place of a content."""
    length: int = 0
    """Characters of the pieces."""
    thoughts: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Names of its pictures."""
    characters: list[int] = field(default_factory=list)
    """Characters of the text before each picture."""

    def add(self, text: str, between: str) -> None:
        """Add a text; `between` stands before it, unless it is the first."""
        added = [between, text] if self.pieces else [text]
        self.pieces += added
        self.length += sum(map(len, added))

    @property
    def text(self) -> str | None:
        """The words; null where the row has null."""
        return None if self.is_null and not self.pieces else "".join(self.pieces)

    def content(self) -> Any:
        """The text, or [text, names, characters]. What was thought stands in <think>, as servers log it."""
        if self.names:
            return [self.text, self.names, self.characters]
        if not self.thoughts or self.role != ASSISTANT:
            return self.text
        thoughts = "\n\n".join(self.thoughts)
        return f"<think>\n{thoughts}\n</think>\n\n{self.text or ''}"


class _Names:
    """Names of the pictures of a conversation, given to its parts in order."""

    def __init__(self, of_columns: Sequence[str], of_messages: Sequence[str]) -> None:
        self._of_columns, self._of_messages = of_columns, iter(of_messages)
        self._shown, self._next = set[int](), 0

    def of_part(self, part: MessagePart) -> str:
        """The next name: a part that holds a picture has its own, any other one of a column."""
        own = next(self._of_messages, None) if part.picture is not None else None
        return self.of_column(self._next) if own is None else own

    def of_column(self, index: int) -> str:
        """The name of a picture of a column."""
        if not 0 <= index < len(self._of_columns):
            return _NO_NAME
        self._shown.add(index)
        self._next = max(self._next, index + 1)
        return self._of_columns[index]

    def unplaced(self) -> list[str]:
        """Names of the pictures that no part stands for."""
        return [name for index, name in enumerate(self._of_columns) if index not in self._shown]


def turns_of(conversation: Any, of_columns: Sequence[str], of_messages: Sequence[str]) -> list[list[Any]]:
    """Turns of a conversation, as [role, content].

    A picture stands where a part, a mark, or the message's own `images` (of our releases) puts it; else it goes before
    the first message. Instructions and what tools did are left out; what an assistant said before and after it used a
    tool is one turn. `of_messages` are the names of pictures that parts hold, `of_columns` those of all others.
    Raises LineRejected unless user and assistant take turns, the user first.
    """
    names, turns, after_tools = _Names(of_columns, of_messages), list[_Turn](), False
    for message in messages_of(conversation):
        if is_plain(message) and message["role"] == READ_ROLES[len(turns) % 2]:
            turns.append(_Turn(message["role"], [message["content"]]))
            after_tools = False
            continue
        role, parts = role_of(message), parts_of(message)
        if role == SYSTEM:
            continue
        if role == TOOL or (parts and all(part.is_of_tools for part in parts)):
            after_tools = True
            continue
        if after_tools and turns and role == turns[-1].role:
            _extend(turns[-1], parts, names, "\n\n")
        elif role == READ_ROLES[len(turns) % 2]:
            turns.append(_Turn(role, [], is_null=_checked(content_in(message)) is None))
            _extend(turns[-1], parts, names, "\n")
            _place(turns[-1], message, names)
        else:
            raise LineRejected(RejectReason.BAD_MESSAGES, "user and assistant do not take turns")
        after_tools = any(part.is_of_tools for part in parts)
    contents = [turn.content() for turn in turns]
    if (unplaced := names.unplaced()) and turns:
        contents = _with_unplaced(turns, contents, unplaced)
    return [[turn.role, content] for turn, content in zip(turns, contents, strict=True)]


def _checked(content: Any) -> Any:
    if content is not None and not isinstance(content, str | list | Mapping):
        evidence = f"content is neither text nor parts: {type(content).__name__}"
        raise LineRejected(RejectReason.BAD_MESSAGES, evidence)
    return content


def _extend(turn: _Turn, parts: Sequence[MessagePart], names: _Names, between: str) -> None:
    """Add the texts, thoughts and pictures among some parts; `between` stands before the first text."""
    waiting = 0
    for part in parts:
        if part.kind == PICTURE:
            turn.names.append(names.of_part(part))
            waiting += 1
        elif part.kind == THINKING and part.text:
            turn.thoughts.append(part.text)
        elif part.kind == TEXT and part.text:
            turn.add(part.text, between)
            turn.characters += [turn.length - len(part.text)] * waiting
            waiting, between = 0, "\n"
    turn.characters += [turn.length] * waiting


def _place(turn: _Turn, message: Row, names: _Names) -> None:
    """Add the pictures of columns whose places the message says."""
    for each in listed(message.get("images")):
        if is_place(each):
            turn.names.append(names.of_column(each["image"]))
            turn.characters.append(each["character"])


def _with_unplaced(turns: Sequence[_Turn], contents: Sequence[Any], unplaced: Sequence[str]) -> list[Any]:
    """The contents with pictures that no part stands for: where marks are, if they are as many, or before all."""
    marks = [(turn.text or "").count(MARK) for turn in turns]
    if sum(marks) == len(unplaced) and not any(turn.names for turn in turns):
        names = iter(unplaced)
        each_turn = zip(turns, contents, marks, strict=True)
        return [[turn.text, [next(names) for _ in range(n)]] if n else content for turn, content, n in each_turn]
    first = turns[0]
    characters = [*(0 for _ in unplaced), *first.characters]
    return [[first.text, [*unplaced, *first.names], characters], *contents[1:]]
