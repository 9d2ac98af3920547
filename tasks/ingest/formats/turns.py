"""Messages of a row -> the turns of a log's state, user and assistant in turn, each picture where it stands.

In: the messages of a conversation, and names for its pictures. Out: [role, content] of each turn, as a server logs it.
A picture is placed by its part, by an image place of the message (our releases), by a mark in a text, or before
everything: a further way is a case in `turns_of`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from schemas.items.reject import LineRejected, RejectReason
from tasks.ingest.formats.parts import (
    ASSISTANT,
    PICTURE,
    SYSTEM,
    TEXT,
    THINKING_PART,
    TOOL,
    USER,
    MessagePart,
    content_in,
    is_image_place,
    is_plain,
    messages_of,
    parts_of,
    role_of,
)
from tasks.ingest.formats.pictures import SourceRow, as_list
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
    """Characters of the pieces together."""
    thoughts: list[str] = field(default_factory=list)
    image_names: list[str] = field(default_factory=list)
    characters: list[int] = field(default_factory=list)
    """For each of `image_names`, the characters of the text that stand before it."""

    def add(self, text: str, between: str) -> None:
        """Add a text; `between` stands before it, unless it is the first."""
        if self.pieces:
            self.pieces.append(between)
            self.length += len(between)
        self.pieces.append(text)
        self.length += len(text)

    @property
    def text(self) -> str | None:
        """The words; null where the row has null."""
        return None if self.is_null and not self.pieces else "".join(self.pieces)

    def content(self) -> Any:
        """The text, or [text, image names, characters]. Thoughts stand in <think>, as servers log them."""
        if self.image_names:
            return [self.text, self.image_names, self.characters]
        if not self.thoughts or self.role != ASSISTANT:
            return self.text
        thoughts = "\n\n".join(self.thoughts)
        return f"<think>\n{thoughts}\n</think>\n\n{self.text or ''}"


class _ImageNames:
    """Names of the pictures of a conversation, given to its parts in order."""

    def __init__(self, of_columns: Sequence[str], of_messages: Sequence[str]) -> None:
        self._of_columns = of_columns
        self._of_messages = iter(of_messages)
        self._placed_columns = set[int]()
        """Indices in `of_columns` that a part or a message has placed."""
        self._next_column = 0
        """Index in `of_columns` that the next part without a picture of its own stands for."""

    def of_part(self, part: MessagePart) -> str:
        """The next name of the messages for a part that holds a picture, and the next of the columns for a mark."""
        if part.picture is not None:
            name = next(self._of_messages, None)
            if name is not None:
                return name
        return self.of_column(self._next_column)

    def of_column(self, index: int) -> str:
        """The name of a picture of a column, which is placed from now on; `_NO_NAME` if there is none."""
        if not 0 <= index < len(self._of_columns):
            return _NO_NAME
        self._placed_columns.add(index)
        self._next_column = max(self._next_column, index + 1)
        return self._of_columns[index]

    def unplaced(self) -> list[str]:
        """Names of the pictures of columns that no part stands for."""
        return [name for index, name in enumerate(self._of_columns) if index not in self._placed_columns]


def turns_of(conversation: Any, of_columns: Sequence[str], of_messages: Sequence[str]) -> list[list[Any]]:
    """Turns of a conversation, as [role, content].

    A picture stands where a part, a mark, or the message's own `images` (of our releases) puts it; else it goes before
    the first message. Instructions and what tools did are left out; what an assistant said before and after it used a
    tool is one turn. `of_messages` are the names of pictures that parts hold, `of_columns` those of all others.
    Raises LineRejected unless user and assistant take turns, the user first.
    """
    if not of_columns and not of_messages and (plain := _plain_turns(conversation)) is not None:
        return plain
    names = _ImageNames(of_columns, of_messages)
    turns: list[_Turn] = []
    after_tools = False
    for message in messages_of(conversation):
        next_role = READ_ROLES[len(turns) % 2]
        # Most messages: a text of the side whose turn it is.
        if is_plain(message) and message["role"] == next_role:
            turns.append(_Turn(message["role"], [message["content"]]))
            after_tools = False
            continue
        role = role_of(message)
        parts = parts_of(message)
        if role == SYSTEM:
            continue
        # A call without words, or what a tool returned.
        if role == TOOL or (parts and all(part.is_of_tools for part in parts)):
            after_tools = True
            continue
        if after_tools and turns and role == turns[-1].role:
            # The assistant goes on after a tool has answered.
            _extend(turns[-1], parts, names, "\n\n")
        elif role == next_role:
            content = content_in(message)
            _check_content(content)
            turn = _Turn(role, [], is_null=content is None)
            _extend(turn, parts, names, "\n")
            _add_placed_images(turn, message, names)
            turns.append(turn)
        else:
            raise LineRejected(RejectReason.BAD_MESSAGES, "user and assistant do not take turns")
        after_tools = any(part.is_of_tools for part in parts)
    contents = [turn.content() for turn in turns]
    unplaced = names.unplaced()
    if unplaced and turns:
        contents = _with_unplaced(turns, contents, unplaced)
    return [[turn.role, content] for turn, content in zip(turns, contents, strict=True)]


def _plain_turns(conversation: Any) -> list[list[Any]] | None:
    """Turns of a conversation of texts alone, as most are; None for any other, or where nobody takes turns."""
    turns: list[list[Any]] = []
    for message in conversation:
        if not is_plain(message) or message["role"] != READ_ROLES[len(turns) % 2]:
            return None
        turns.append([message["role"], message["content"]])
    return turns


def _check_content(content: Any) -> None:
    """Raises LineRejected for a content that is neither null, a text, nor one part or a list of them."""
    if content is not None and not isinstance(content, str | list | Mapping):
        evidence = f"content is neither text nor parts: {type(content).__name__}"
        raise LineRejected(RejectReason.BAD_MESSAGES, evidence)


def _extend(turn: _Turn, parts: Sequence[MessagePart], names: _ImageNames, between: str) -> None:
    """Add the texts, thoughts and pictures among some parts; `between` stands before the first text."""
    # Pictures whose character is not known yet: it is where the next text begins, or the end of the turn.
    pictures_before_text = 0
    for part in parts:
        if part.kind == PICTURE:
            turn.image_names.append(names.of_part(part))
            pictures_before_text += 1
        elif part.kind == THINKING_PART and part.text:
            turn.thoughts.append(part.text)
        elif part.kind == TEXT and part.text:
            turn.add(part.text, between)
            text_start = turn.length - len(part.text)
            turn.characters += [text_start] * pictures_before_text
            pictures_before_text = 0
            between = "\n"
    turn.characters += [turn.length] * pictures_before_text


def _add_placed_images(turn: _Turn, message: SourceRow, names: _ImageNames) -> None:
    """Add the pictures of columns whose places the message states."""
    for value in as_list(message.get("images")):
        if is_image_place(value):
            turn.image_names.append(names.of_column(value["image"]))
            turn.characters.append(value["character"])


def _with_unplaced(turns: Sequence[_Turn], contents: Sequence[Any], unplaced: Sequence[str]) -> list[Any]:
    """The contents with pictures that no part stands for: at the marks of texts, or before the first message.

    At the marks only if they are as many as the pictures, and no turn has a picture from elsewhere.
    """
    marks = [(turn.text or "").count(MARK) for turn in turns]
    if sum(marks) == len(unplaced) and not any(turn.image_names for turn in turns):
        names = iter(unplaced)
        marked_contents = []
        for turn, content, count in zip(turns, contents, marks, strict=True):
            # Without characters, the reader of the log finds the marks.
            text_and_names = [turn.text, list(islice(names, count))]
            marked_contents.append(text_and_names if count else content)
        return marked_contents
    first_turn = turns[0]
    image_names = [*unplaced, *first_turn.image_names]
    characters = [*(0 for _ in unplaced), *first_turn.characters]
    return [[first_turn.text, image_names, characters], *contents[1:]]
