"""Trees of messages, as chat front ends keep them: every path from the first message to a last one is a conversation.

In: the messages of one chat with their parents, and the one that the page shows. Out: the path to that one first, then
one for each other last message. So every message is on a path: answers that were generated again, and questions that
were written anew, are conversations of their own, and are screened and counted as such.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from schemas.items.reject import LineRejected, RejectReason
from tasks.ingest.formats.adapter import is_stated
from tasks.ingest.formats.parts import ASSISTANT, role_of
from tasks.ingest.formats.pictures import SourceRow
from tasks.storage.content_id import text_id

_MESSAGES_MAX = 1_000_000
"""Messages on all paths of one tree; their number grows with the square of the tree's."""
_MODEL_CHARACTERS_MAX = 200


class TreeMessage(NamedTuple):
    """One node of a tree."""

    key: str
    """The id of the node, which is unique in its tree."""
    parent: str | None
    """The id of the node before it; null for a first message."""
    message: SourceRow | None
    """{role, content, …} as `turns_of` reads it; null for a node that holds none."""
    model: str | None = None
    """Model that answered, where the node says it."""
    time: Any = None
    """Time as the node has it."""


def present_nodes(by_key: Mapping[str, SourceRow | None]) -> dict[str, SourceRow]:
    """The nodes that a chat has: a table has a field for every node of every chat, which is null in the others."""
    return {key: node for key, node in by_key.items() if node is not None}


class Branch(NamedTuple):
    """One path of a tree, from a first message to a last one."""

    messages: list[SourceRow]
    last_key: str
    """The id of the last node."""
    models: list[str]
    """Models that answered on the path, each once, in order."""
    time: Any
    """The last time on the path; null where it has none."""


def branches(nodes: Sequence[TreeMessage], shown_node: str | None) -> list[Branch]:
    """All paths of a tree. The first one leads to, or through, the node `shown_node`; else to the last of `nodes`.

    Raises LineRejected when ids repeat, when a parent is not there, so that nobody knows what was said before, and when
    parents go in a circle, so that a node is on no path.
    """
    by_key = {node.key: node for node in nodes}
    if len(by_key) != len(nodes):
        raise LineRejected(RejectReason.BAD_MESSAGES, "messages of one id")
    if any(node.parent and node.parent not in by_key for node in nodes):
        raise LineRejected(RejectReason.BAD_MESSAGES, "the message before one is not there")
    parents = {node.parent for node in nodes}
    paths: list[list[TreeMessage]] = []
    messages_left = _MESSAGES_MAX
    for node in nodes:
        if node.key not in parents:
            paths.append(_path(node, by_key, messages_left))
            messages_left -= len(paths[-1])
    if len({node.key for path in paths for node in path}) != len(nodes):
        raise LineRejected(RejectReason.BAD_MESSAGES, "parents of messages go in a circle")
    through_shown = [number for number, path in enumerate(paths) if any(node.key == shown_node for node in path)]
    shown_number = through_shown[-1] if through_shown else len(paths) - 1
    ordered = [*paths[shown_number:][:1], *paths[:shown_number], *paths[shown_number + 1 :]]
    return [branch for branch in map(_branch, ordered) if branch.messages]


def _path(last: TreeMessage, by_key: Mapping[str, TreeMessage], length_max: int) -> list[TreeMessage]:
    """The nodes from a first message to `last`. A last node has no child, so that it stands in no circle itself."""
    path = [last]
    while (parent := by_key.get(path[-1].parent or "")) is not None:
        path.append(parent)
        if len(path) > len(by_key):
            raise LineRejected(RejectReason.BAD_MESSAGES, "parents of messages go in a circle")
        if len(path) > length_max:
            raise LineRejected(RejectReason.BAD_MESSAGES, f"paths of more than {_MESSAGES_MAX:,} messages")
    return path[::-1]


def _branch(path: Sequence[TreeMessage]) -> Branch:
    with_message = [node for node in path if node.message is not None]
    messages = [node.message for node in with_message if node.message is not None]
    answers = (node for node in with_message if node.message is not None and role_of(node.message) == ASSISTANT)
    models = list(dict.fromkeys(node.model for node in answers if node.model))
    times = [node.time for node in path if node.time is not None]
    return Branch(messages, path[-1].key, models, times[-1] if times else None)


def rows_of_branches(tree: Iterable[Branch], row: SourceRow, other_model: str | None) -> list[SourceRow]:
    """A row of `chat` for each branch. `row` has `id` and perhaps `user_id` and `created_at`, which hold for all.

    The first branch has the id of the chat, and each other one a hash of its last message behind it. A branch on which
    several models answered names them all; one that names none has `other_model`.
    """
    rows: list[SourceRow] = []
    for branch in tree:
        chat_id = row.get("id")
        suffix = f"-{text_id(branch.last_key)[:8]}" if rows else ""
        model = " + ".join(branch.models) or other_model or "unknown"
        rows.append(
            {
                "conversation_id": f"{chat_id}{suffix}" if is_stated(chat_id) else None,
                "model": model if len(model) <= _MODEL_CHARACTERS_MAX else f"{len(branch.models)} models",
                "conversation": branch.messages,
                "user_id": row.get("user_id"),
                "tstamp": branch.time,
                "created_at": row.get("created_at"),
            }
        )
    if not rows:
        raise LineRejected(RejectReason.NO_MESSAGES, "a tree without messages")
    return rows
