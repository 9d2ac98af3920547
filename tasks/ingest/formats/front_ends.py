"""Adapters of exports of chat front ends, which keep trees of messages: Open WebUI, LibreChat and ChatGPT.

In: one chat, as the front end writes it. Out: first a row for each path of its tree (`unpacked`; `trees.py`), with
`conversation`, messages of {role, content} and the files beside them; then the record of each row, as of any chat.
Another front end is a function that makes `TreeMessage`s of its messages, and an adapter in `FRONT_ENDS`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tasks.ingest.formats.adapter import ColumnKind, FormatAdapter, chat, pictures
from tasks.ingest.formats.openwebui_blocks import answer_content, answering_model
from tasks.ingest.formats.parts import ASSISTANT, SYSTEM, TOOL, USER, beside_content
from tasks.ingest.formats.pictures import SourceRow, as_list
from tasks.ingest.formats.trees import TreeMessage, branches, present_nodes, rows_of_branches
from tasks.ingest.log_line import Place, Record

_NO_PARENT = "00000000-0000-0000-0000-000000000000"
"""Parent of LibreChat's first messages (`Constants` in packages/data-provider/src/config.ts)."""
_LIST, _OBJECT = frozenset({ColumnKind.LIST}), frozenset({ColumnKind.OBJECT})


def _record(path_row: SourceRow, place: Place) -> Record:
    """The record of a path: that of a chat."""
    return chat(path_row, place)


def _pictures(path_row: SourceRow) -> Sequence[SourceRow]:
    """The pictures in the messages of a path."""
    return pictures(path_row, "conversation")


def _beside(message: SourceRow, address: str) -> Record:
    """The parts beside the content of a message: of its files, addresses of pictures are `images`, others `files`."""
    addresses = as_list(message.get("images"))
    other_files = []
    for file in as_list(message.get("files")):
        if isinstance(file, Mapping) and str(file.get("type")).lower().startswith("image"):
            addresses.append(file.get(address))
        else:
            other_files.append(file)
    found_files = {"images": addresses, "files": other_files}
    return beside_content(message) | {key: values for key, values in found_files.items() if values}


def _open_webui(row: SourceRow, place: Place) -> list[SourceRow]:
    """The paths of one exported chat. The older form has no `chat` around it, the oldest a list in place of a tree."""
    exported = row.get("chat") or row
    history = exported.get("history") or {}
    tree = present_nodes(history.get("messages") or {})
    listed_messages = {str(number): message for number, message in enumerate(exported.get("messages") or ())}
    nodes = []
    key_before = None
    for key, message in (tree or listed_messages).items():
        # In a list, each message follows the one before it.
        parent = message.get("parentId") if tree else key_before
        message_read = _open_webui_message(message)
        nodes.append(TreeMessage(key, parent, message_read, answering_model(message), message.get("timestamp")))
        key_before = key
    chosen_models = list(exported.get("models") or [])
    only_model = chosen_models[0] if len(chosen_models) == 1 else None  # of several, nobody says which one answered
    of_chat = {"id": row.get("id"), "user_id": row.get("user_id"), "created_at": row.get("created_at")}
    return rows_of_branches(branches(nodes, history.get("currentId")), of_chat, only_model)


def _open_webui_message(message: SourceRow) -> SourceRow:
    """Role, content, and what stands beside it."""
    content = message.get("content")
    if message["role"] == ASSISTANT and isinstance(content, str):
        content = answer_content(content)
    return _beside(message, "url") | {"role": message["role"], "content": content}


OPEN_WEBUI = FormatAdapter(
    "open-webui",
    frozenset({"chat"}),
    _record,
    _pictures,
    ("chat", "history", "models", "messages"),
    unpacked=_open_webui,
    or_columns=(frozenset({"title", "history"}),),
    kinds={"chat": _OBJECT, "history": _OBJECT},
    about="chats exported from Open WebUI; answers that were generated again are chats, too",
    lacks=("votes",),
)
"""Shape: open-webui/docs, docs/features/chat-conversations/data-controls/import-export.md @0037f77."""


def _librechat(row: SourceRow, place: Place) -> list[SourceRow]:
    """The paths of one exported chat, whose messages are a list, or nested by `children`; both name their parents."""
    messages = list(_flat(row["messagesTree"] if row.get("messagesTree") is not None else row["messages"]))
    options = row.get("options") or {}
    nodes = [
        TreeMessage(
            message["messageId"], _librechat_parent(message), _librechat_message(message),
            message.get("model") or options.get("model") or message.get("sender"), message.get("createdAt"),
        )
        for message in messages
    ]  # fmt: skip
    user_ids = [message["user"] for message in messages if message.get("user")]
    of_chat = {"id": row["conversationId"], "user_id": user_ids[0] if user_ids else None}
    # The export does not say which path the page showed: the one with the newest message is taken (times of ISO 8601).
    newest = max(nodes, key=lambda node: str(node.time or ""), default=None)
    return rows_of_branches(branches(nodes, newest.key if newest else None), of_chat, row.get("endpoint"))


def _librechat_parent(message: SourceRow) -> str | None:
    """The id of the message before; null for a first one, which has an id of zeros."""
    parent_id: str | None = message.get("parentMessageId")
    return None if parent_id == _NO_PARENT else parent_id


def _flat(messages: Sequence[SourceRow]) -> Iterator[SourceRow]:
    """The messages, and those nested in them, each before its children and in their order."""
    waiting = list(reversed(messages))
    while waiting:
        message = waiting.pop()
        yield message
        waiting += reversed(message.get("children") or ())


def _librechat_message(message: SourceRow) -> SourceRow:
    """Role, parts, and what stands beside them. `text` repeats `content` where a message has both.

    In place of an answer that failed, which has the words of the error, there is null.
    """
    role = USER if message["isCreatedByUser"] else ASSISTANT
    beside = _beside(message, "filepath")
    if role == ASSISTANT and message.get("error") is True:
        return beside | {"role": role, "content": None}
    parts = [_librechat_part(part) for part in as_list(message.get("content"))]
    return beside | {"role": role, "content": parts or message.get("text")}


def _librechat_part(part: Any) -> Any:
    """A part of a message; LibreChat calls a thought `think`."""
    is_thought = isinstance(part, Mapping) and part.get("type") == "think"
    return {"type": "thinking", "thinking": part.get("think")} if is_thought else part


LIBRECHAT = FormatAdapter(
    "librechat",
    frozenset({"conversationId", "messages"}),
    _record,
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


def _chatgpt(row: SourceRow, place: Place) -> list[SourceRow]:
    """The paths of one exported chat. An answer that is several nodes (thoughts, tools, text) is one message."""
    nodes = []
    for key, node in present_nodes(row["mapping"]).items():
        message = node.get("message")
        if message:
            model = (message.get("metadata") or {}).get("model_slug")
            message_read = _chatgpt_message(message)
            nodes.append(TreeMessage(key, node.get("parent"), message_read, model, message.get("create_time")))
        else:
            nodes.append(TreeMessage(key, node.get("parent"), None))
    paths = []
    for path in branches(nodes, row.get("current_node")):
        paths.append(path._replace(messages=_joined_answers(path.messages)))
    of_chat = {"id": row.get("conversation_id") or row.get("id"), "created_at": row.get("create_time")}
    return rows_of_branches(paths, of_chat, row.get("default_model_slug"))


def _chatgpt_message(message: SourceRow) -> SourceRow:
    """Role and parts. A text of the settings is an instruction; an answer to a tool, not to the user, is a call of it.

    Of both only that they are there is kept: neither is part of what was said.
    """
    content = message.get("content") or {}
    role = message["author"]["role"]
    content_type = content.get("content_type")
    if content_type in ("user_editable_context", "model_editable_context"):
        return {"role": SYSTEM, "content": ""}
    if role == ASSISTANT and message.get("recipient") not in (None, "all"):
        return {"role": TOOL, "content": [{"type": "tool_call"}]}
    beside = _beside(message, "url")
    # Uploads stand here; pictures among them stand in the parts, too.
    uploads = (message.get("metadata") or {}).get("attachments") or ()
    if other_files := [file for file in uploads if not str(file.get("mime_type")).lower().startswith("image/")]:
        beside["attachments"] = [*as_list(beside.get("attachments")), *other_files]
    return beside | {"role": role, "content": list(_chatgpt_parts(content_type, content))}


def _chatgpt_parts(content_type: Any, content: SourceRow) -> Iterator[Any]:
    """Thoughts, a text of its own or what else it is, then what `parts` lists; each content has one of these."""
    if content_type == "thoughts":
        for thought in content.get("thoughts") or ():
            yield {"type": "thinking", "thinking": thought.get("content") or thought.get("summary") or ""}
    elif content_type == "reasoning_recap":
        yield {"type": "thinking", "thinking": content.get("content") or ""}
    elif content.get("parts") is None:
        type_name = "text" if isinstance(content.get("text"), str) else str(content_type)
        yield {name: value for name, value in content.items() if name != "content_type"} | {"type": type_name}
    for part in as_list(content.get("parts")):
        if not isinstance(part, Mapping):
            yield part
        elif part.get("content_type") == "image_asset_pointer":
            yield {"type": "image", "image": part.get("asset_pointer")}
        else:
            yield {"type": str(part.get("content_type"))}


def _joined_answers(messages: Sequence[SourceRow]) -> list[SourceRow]:
    """The messages; answers that follow each other are one."""
    joined_messages: list[SourceRow] = []
    for message in messages:
        if joined_messages and message["role"] == joined_messages[-1]["role"] == ASSISTANT:
            joined_messages[-1] = _joined(joined_messages[-1], message)
        else:
            joined_messages.append(message)
    return joined_messages


def _joined(first: SourceRow, second: SourceRow) -> SourceRow:
    """One message of two, with all that stands in and beside both."""
    joined = {**first, **second}
    for key in first.keys() & second.keys() - {"role"}:
        joined[key] = [*as_list(first[key]), *as_list(second[key])]
    return joined


CHATGPT = FormatAdapter(
    "chatgpt-export",
    frozenset({"mapping", "current_node"}),
    _record,
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
