"""Adapters of exports of chat front ends, which keep trees of messages: Open WebUI, LibreChat and ChatGPT.

In: one chat, as the front end writes it. Out: a row of `chat` for each path of its tree (`trees.py`), with messages of
{role, content} and the files beside them. Another front end is an adapter here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tasks.ingest.formats.adapter import ColumnKind, FormatAdapter, Record, Row, chat, pictures
from tasks.ingest.formats.parts import ASSISTANT, SYSTEM, TOOL, USER
from tasks.ingest.formats.pictures import as_list
from tasks.ingest.formats.trees import TreeMessage, branches, rows_of_branches
from tasks.ingest.log_line import Place

_LIST, _OBJECT = frozenset({ColumnKind.LIST}), frozenset({ColumnKind.OBJECT})


def _chats(row: Row, place: Place) -> Record:
    return chat(row, place)


def _pictures(row: Row) -> Sequence[Row]:
    return pictures(row, "conversation")


def _is_picture(file: Any, *type_keys: str) -> bool:
    return isinstance(file, Mapping) and any(str(file.get(key)).lower().startswith("image") for key in type_keys)


def _open_webui(row: Row, place: Place) -> list[Row]:
    """The chats of an exported one. The older form has no `chat` around it, the oldest a list in place of a tree."""
    talk = row.get("chat") or row
    history = talk.get("history") or {}
    messages = history.get("messages") or {str(number): each for number, each in enumerate(talk.get("messages") or ())}
    nodes = []
    earlier_key = None
    for key, message in messages.items():
        parent = message.get("parentId") if history else earlier_key
        model = message.get("model")
        time = message.get("timestamp")
        nodes.append(TreeMessage(key, parent, _open_webui_message(message), model, time))
        earlier_key = key
    models = list(talk.get("models") or [])
    facts = {"id": row.get("id"), "user_id": row.get("user_id"), "created_at": row.get("created_at")}
    return rows_of_branches(branches(nodes, history.get("currentId")), facts, models[0] if len(models) == 1 else None)


def _open_webui_message(message: Row) -> Row:
    """Role, content and files; a file of type image is a picture."""
    files = as_list(message.get("files"))
    shown = [file.get("url") for file in files if _is_picture(file, "type")]
    others = [file for file in files if not _is_picture(file, "type")]
    rest = {key: message[key] for key in ("tool_calls", "reasoning_content") if message.get(key)}
    plain = {"role": message["role"], "content": message.get("content")}
    return plain | rest | ({"images": shown} if shown else {}) | ({"files": others} if others else {})


OPEN_WEBUI = FormatAdapter(
    "open-webui",
    frozenset({"chat"}),
    _chats,
    _pictures,
    ("chat", "history", "models", "messages"),
    unpacked=_open_webui,
    or_columns=(frozenset({"title", "history"}),),
    kinds={"chat": _OBJECT, "history": _OBJECT},
    about="chats exported from Open WebUI; answers that were generated again are chats, too",
    lacks=("votes",),
)
"""Shape: open-webui/docs, docs/features/chat-conversations/data-controls/import-export.md @0037f77."""


def _librechat(row: Row, place: Place) -> list[Row]:
    """The chats of an exported one, whose messages are a list, or nested by `children`."""
    messages = list(_flat(row["messagesTree"] if row.get("messagesTree") is not None else row["messages"]))
    options = row.get("options") or {}
    nodes = [
        TreeMessage(
            message["messageId"], message.get("parentMessageId"), _librechat_message(message),
            message.get("model") or options.get("model") or message.get("sender"), message.get("createdAt"),
        )
        for message in messages
    ]  # fmt: skip
    people = (message.get("user") for message in messages)
    person = next(filter(None, people), None)
    facts = {"id": row["conversationId"], "user_id": person}
    # No message is said to be the one that the page shows: it is the one that was written last.
    newest = max(nodes, key=lambda node: str(node.time or ""), default=None)
    return rows_of_branches(branches(nodes, newest.key if newest else None), facts, row.get("endpoint"))


def _flat(messages: Sequence[Row]) -> Iterator[Row]:
    """The messages, and those nested in them."""
    waiting = list(reversed(messages))
    while waiting:
        message = waiting.pop()
        yield message
        waiting += reversed(message.get("children") or ())


def _librechat_message(message: Row) -> Row:
    """Role, parts and files. `text` repeats `content` where a message has both."""
    parts = [_librechat_part(part) for part in message.get("content") or () if part is not None]
    files = as_list(message.get("files"))
    shown = [file.get("filepath") for file in files if _is_picture(file, "type")]
    others = [file for file in files if not _is_picture(file, "type")]
    plain = {
        "role": USER if message["isCreatedByUser"] else ASSISTANT,
        "content": parts or message.get("text"),
    }
    rest = {"attachments": message["attachments"]} if message.get("attachments") else {}
    return plain | rest | ({"images": shown} if shown else {}) | ({"files": others} if others else {})


def _librechat_part(part: Row) -> Row:
    return {"type": "thinking", "thinking": part.get("think")} if part.get("type") == "think" else part


LIBRECHAT = FormatAdapter(
    "librechat",
    frozenset({"conversationId", "messages"}),
    _chats,
    _pictures,
    ("conversationId", "messages", "messagesTree", "options", "endpoint"),
    unpacked=_librechat,
    or_columns=(frozenset({"conversationId", "messagesTree"}),),
    kinds={"messages": _LIST, "messagesTree": _LIST},
    about="chats exported from LibreChat as JSON; answers that were generated again are chats, too",
    lacks=("votes",),
)
"""Shape: danny-avila/LibreChat, client/src/hooks/Conversations/useExportConversation.ts and hooks/Messages/
useBuildMessageTree.ts @00b3bc3."""


def _chatgpt(row: Row, place: Place) -> list[Row]:
    """The chats of an exported one. An answer that is several nodes (thoughts, tools, text) is one message."""
    nodes = []
    for key, node in row["mapping"].items():
        message = node.get("message")
        made = _chatgpt_message(message) if message else None
        model = (message.get("metadata") or {}).get("model_slug") if message else None
        nodes.append(TreeMessage(key, node.get("parent"), made, model, message.get("create_time") if message else None))
    facts = {"id": row.get("conversation_id") or row.get("id"), "created_at": row.get("create_time")}
    tree = [each._replace(messages=_joined_answers(each.messages)) for each in branches(nodes, row.get("current_node"))]
    return rows_of_branches(tree, facts, row.get("default_model_slug"))


def _chatgpt_message(message: Row) -> Row:
    """Role and parts. What is hidden from the user is an instruction, and what is not meant for the user a call."""
    content = message.get("content") or {}
    role = message["author"]["role"]
    kind = content.get("content_type")
    if kind in ("user_editable_context", "model_editable_context"):
        return {"role": SYSTEM, "content": ""}
    if role == ASSISTANT and message.get("recipient") not in (None, "all"):
        return {"role": TOOL, "content": [{"type": "tool_call"}]}
    return {"role": role, "content": list(_chatgpt_parts(kind, content))}


def _chatgpt_parts(kind: Any, content: Row) -> Iterator[Row]:
    if kind == "thoughts":
        for thought in content.get("thoughts") or ():
            yield {"type": "thinking", "thinking": thought.get("content") or thought.get("summary") or ""}
    elif kind == "reasoning_recap":
        yield {"type": "thinking", "thinking": content.get("content") or ""}
    elif content.get("parts") is None:
        yield {"type": "text" if isinstance(content.get("text"), str) else str(kind), "text": content.get("text")}
    for part in content.get("parts") or ():
        if isinstance(part, str):
            yield {"type": "text", "text": part}
        elif part.get("content_type") == "image_asset_pointer":
            yield {"type": "image", "image": part.get("asset_pointer")}
        else:
            yield {"type": str(part.get("content_type"))}


def _joined_answers(messages: Sequence[Row]) -> list[Row]:
    """The messages; answers that follow each other are one."""
    joined: list[Row] = []
    for message in messages:
        if joined and message["role"] == joined[-1]["role"] == ASSISTANT:
            joined[-1] = {"role": ASSISTANT, "content": [*joined[-1]["content"], *message["content"]]}
        else:
            joined.append(message)
    return joined


CHATGPT = FormatAdapter(
    "chatgpt-export",
    frozenset({"mapping", "current_node"}),
    _chats,
    _pictures,
    ("mapping", "current_node"),
    unpacked=_chatgpt,
    or_columns=(frozenset({"mapping", "title"}),),
    kinds={"mapping": _OBJECT},
    about="conversations.json of a ChatGPT export; pictures are missing, because the export has addresses of them",
    lacks=("votes", "users"),
)
"""Shape: not published by OpenAI; as open-webui/docs (import-export.md @0037f77) and its readers know it: `mapping` of
{message, parent, children}, messages of {author {role}, content {content_type, parts}, metadata {model_slug}}."""

FRONT_ENDS = (OPEN_WEBUI, LIBRECHAT, CHATGPT)
