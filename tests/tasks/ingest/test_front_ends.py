"""Exports of chat front ends: every message of a tree is in a conversation, whichever the page shows."""

import base64
import random
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders import image_bytes
from tests.tasks.ingest.foreign import assert_conserved, put_rows, sentence, with_each_null
from tests.tasks.ingest.logs import ingested, rejected, texts

Row = dict[str, Any]
MODELS = ["heron-2", "wren-1"]
SECONDS = 1_718_884_800
PICTURE = "data:image/png;base64," + base64.b64encode(image_bytes(5)).decode()


def drawn_tree(seed: int) -> list[Row]:
    """Nodes {key, parent, role, text, model}, parents first: questions and answers of which some are given again."""
    drawn = random.Random(seed)
    nodes = [{"key": "n0", "parent": None, "role": "user"}]
    for number in range(1, drawn.randint(2, 12)):
        # A regenerated answer has the parent of the one before it; so has a question that is written anew.
        before = drawn.choice(nodes[-3:])
        parent = before["parent"] if before["parent"] and drawn.random() < 0.4 else before["key"]
        role = "assistant" if next(node for node in nodes if node["key"] == parent)["role"] == "user" else "user"
        nodes.append({"key": f"n{number}", "parent": parent, "role": role})
    for number, node in enumerate(nodes):
        model = drawn.choice(MODELS) if node["role"] == "assistant" else None
        node |= {"text": sentence(drawn), "model": model, "time": SECONDS + number}
    return nodes


def paths_of(nodes: list[Row]) -> list[list[Row]]:
    """Every path to a node without children, in order of these nodes."""
    by_key = {node["key"]: node for node in nodes}
    paths = []
    for node in nodes:
        if node["key"] not in {each["parent"] for each in nodes}:
            path = [node]
            while path[0]["parent"] is not None:
                path.insert(0, by_key[path[0]["parent"]])
            paths.append(path)
    return paths


def open_webui(nodes: list[Row], chat_id: str = "a" * 8 + "-1", **changes: Any) -> Row:
    messages = {
        node["key"]: {
            "id": node["key"], "parentId": node["parent"], "role": node["role"], "content": node["text"],
            "childrenIds": [each["key"] for each in nodes if each["parent"] == node["key"]], "timestamp": node["time"],
            **({"model": node["model"], "done": True} if node["model"] else {}),
        }
        for node in nodes
    }  # fmt: skip
    shown = paths_of(nodes)[0]
    talk = {"title": "T", "models": MODELS, "history": {"currentId": shown[-1]["key"], "messages": messages}}
    # An export repeats the path that is shown as a list.
    talk["messages"] = [messages[node["key"]] for node in shown]
    row = {"id": chat_id, "user_id": "u1", "title": "T", "chat": talk, "created_at": SECONDS, "meta": {"tags": []}}
    return row | changes


def librechat_messages(nodes: list[Row]) -> list[Row]:
    root = "00000000-0000-0000-0000-000000000000"
    return [
        {
            "messageId": node["key"], "parentMessageId": node["parent"] or root, "text": node["text"], "error": False,
            "sender": "User" if node["role"] == "user" else "GPT-4", "isCreatedByUser": node["role"] == "user",
            "model": node["model"], "unfinished": False, "createdAt": f"2024-06-20T12:00:{node['time'] % 60:02d}.000Z",
        }
        for node in nodes
    ]  # fmt: skip


def librechat(nodes: list[Row], chat_id: str = "b" * 8 + "-1", *, nested: bool = False) -> Row:
    row: Row = {
        "conversationId": chat_id, "endpoint": "openAI", "title": "T", "exportAt": "12:00:00", "branches": True,
        "recursive": nested, "options": {"model": "heron-2"},
    }  # fmt: skip
    messages = librechat_messages(nodes)
    if not nested:
        return row | {"messages": messages}
    for message in messages:
        message["children"] = [each for each in messages if each["parentMessageId"] == message["messageId"]]
    return row | {"messagesTree": messages[:1]}


def chatgpt(nodes: list[Row], chat_id: str = "c" * 8 + "-1") -> Row:
    mapping: Row = {"root": {"id": "root", "message": None, "parent": None, "children": ["n0"]}}
    for node in nodes:
        message = {
            "id": node["key"], "author": {"role": node["role"]}, "create_time": node["time"], "recipient": "all",
            "content": {"content_type": "text", "parts": [node["text"]]}, "metadata": {"model_slug": node["model"]},
        }  # fmt: skip
        mapping[node["key"]] = {"id": node["key"], "message": message, "parent": node["parent"] or "root"}
    shown = paths_of(nodes)[0][-1]["key"]
    return {"title": "T", "create_time": SECONDS, "mapping": mapping, "current_node": shown, "conversation_id": chat_id}


WRITERS = {
    "open-webui": open_webui,
    "librechat": librechat,
    "librechat-nested": lambda nodes, chat_id: librechat(nodes, chat_id, nested=True),
    "chatgpt-export": chatgpt,
}


@pytest.mark.parametrize("kind", ["array", "parquet", "arrow"])
@pytest.mark.parametrize("name", WRITERS)
def test_every_path_of_a_tree_is_a_conversation_of_the_models_that_answered(tmp_path, capsys, name, kind):
    trees = {f"chat-{seed:04d}": drawn_tree(seed) for seed in range(40)}
    rows = [WRITERS[name](nodes, chat_id) for chat_id, nodes in trees.items()]
    store = ingested(put_rows(tmp_path / "data", rows, kind), tmp_path / "store")
    assert f"1 file as {name.removesuffix('-nested')}" in capsys.readouterr().err
    assert rejected(store) == {}
    assert_conserved(store, len(rows))
    conversations = store.read("conversations").to_dicts()
    expected = []
    for nodes in trees.values():
        for path in paths_of(nodes):
            models = list(dict.fromkeys(node["model"] for node in path if node["model"]))
            expected.append((tuple(node["text"] for node in path), " + ".join(models)))
    found = [(tuple(texts(row)), row["model"]) for row in conversations]
    # A path without an answer has the model of the chat, or none.
    assert sorted(words for words, _ in found) == sorted(words for words, _ in expected)
    assert {each for each in expected if each[1]} <= set(found)
    assert all(row["unread_parts"] == [] for row in conversations)


def test_an_answer_in_an_arena_of_open_webui_is_of_the_model_that_the_arena_chose(tmp_path):
    models = []
    for name in ("chosen by the person", "chosen by the arena"):
        row = open_webui(drawn_tree(3))
        for message in row["chat"]["history"]["messages"].values():
            if name == "chosen by the arena" and "model" in message:
                message |= {"model": "arena-model", "selectedModelId": message["model"], "arena": True}
        store = ingested(put_rows(tmp_path / name, [row], "array"), tmp_path / f"{name}-store")
        models.append(store.read("conversations").sort("conversation_id")["model"].to_list())
    assert models[0] == models[1]
    assert set(models[0]) & set(MODELS)


NODES_OF = {"open-webui": ("chat", "history", "messages"), "chatgpt-export": ("mapping",)}


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("name", NODES_OF)
def test_a_tree_whose_nodes_are_a_map_is_read_as_one_whose_nodes_are_an_object(tmp_path, name, kind):
    """DuckDB makes maps of JSON whose keys differ from row to row."""
    rows = [WRITERS[name](drawn_tree(seed), f"chat-{seed:04d}") for seed in range(12)]
    texts_read = []
    for number, table in enumerate((pa.Table.from_pylist(rows), _with_map(rows, NODES_OF[name]))):
        data = tmp_path / f"data{number}"
        data.mkdir()
        if kind == "parquet":
            pq.write_table(table, data / "rows.parquet")
        else:
            with pa.ipc.new_file(data / "rows.arrow", table.schema) as sink:
                sink.write_table(table)
        store = ingested(data, tmp_path / f"store{number}")
        assert rejected(store) == {}
        texts_read.append(sorted(map(texts, store.read("conversations").to_dicts())))
    assert texts_read[0] == texts_read[1]


def _with_map(rows: list[Row], path: tuple[str, ...]) -> pa.Table:
    """A table of these rows in which the object at a path is a map."""

    def as_pairs(row: Row, keys: tuple[str, ...]) -> Row:
        inner = row[keys[0]]
        return row | {keys[0]: list(inner.items()) if len(keys) == 1 else as_pairs(inner, keys[1:])}

    def with_map(field: pa.Field, keys: tuple[str, ...]) -> pa.Field:
        if len(keys) == 1:
            nodes = [node for row in rows for node in _at(row, path).values()]
            node_type = pa.Table.from_pylist([{"node": node} for node in nodes]).schema[0].type
            return pa.field(field.name, pa.map_(pa.string(), node_type))
        inner = [with_map(child, keys[1:]) if child.name == keys[1] else child for child in field.type]
        return pa.field(field.name, pa.struct(inner))

    schema = pa.Table.from_pylist(rows).schema
    fields = [with_map(field, path) if field.name == path[0] else field for field in schema]
    return pa.Table.from_pylist([as_pairs(row, path) for row in rows], pa.schema(fields))


def _at(row: Row, path: tuple[str, ...]) -> Row:
    for key in path:
        row = row[key]
    return row


@pytest.mark.parametrize("name", ["open-webui", "chatgpt-export"])
def test_the_path_that_the_page_shows_has_the_id_of_the_chat(tmp_path, name):
    trees = {f"chat-{seed:04d}": drawn_tree(seed) for seed in range(40)}
    rows = [WRITERS[name](nodes, chat_id) for chat_id, nodes in trees.items()]
    store = ingested(put_rows(tmp_path / "data", rows, "array"), tmp_path / "store")
    by_id = {row["conversation_id"]: row for row in store.read("conversations").to_dicts()}
    for chat_id, nodes in trees.items():
        assert texts(by_id[chat_id]) == [node["text"] for node in paths_of(nodes)[0]]
    assert max(len([key for key in by_id if key.startswith(chat_id)]) for chat_id in trees) > 1


def test_each_nullable_key_of_an_open_webui_chat_may_be_null(tmp_path):
    nullable = ["id", "user_id", "title", "created_at", "meta"]
    rows = with_each_null(lambda number: open_webui(drawn_tree(number), f"chat-{number:04d}"), nullable)
    of_message = open_webui(drawn_tree(50), "chat-0050")
    for key in ("timestamp", "model"):
        of_message["chat"]["history"]["messages"]["n1"][key] = None
    store = ingested(put_rows(tmp_path / "data", [*rows, of_message], "array"), tmp_path / "store")
    assert rejected(store) == {}
    assert_conserved(store, len(rows) + 1)


def test_each_nullable_key_of_a_librechat_chat_may_be_null(tmp_path):
    rows = with_each_null(
        lambda number: librechat(drawn_tree(number), f"chat-{number:04d}"),
        ["endpoint", "title", "exportAt", "branches", "recursive", "options"],
    )
    of_message = librechat(drawn_tree(50), "chat-0050")
    for key in ("model", "createdAt", "sender"):
        of_message["messages"][1][key] = None
    store = ingested(put_rows(tmp_path / "data", [*rows, of_message], "jsonl"), tmp_path / "store")
    assert rejected(store) == {}
    assert_conserved(store, len(rows) + 1)


def test_a_chat_of_open_webui_without_its_frame_is_read(tmp_path):
    nodes = drawn_tree(1)
    legacy = open_webui(nodes)["chat"]
    store = ingested(put_rows(tmp_path / "legacy", [legacy], "array"), tmp_path / "store")
    assert (store.read("conversations").height, rejected(store)) == (len(paths_of(nodes)), {})


@pytest.mark.parametrize("history", [None, {}, {"currentId": "n1"}, {"currentId": None, "messages": {}}])
def test_a_chat_of_open_webui_that_is_a_list_without_a_tree_is_read_in_its_order(tmp_path, history):
    nodes = drawn_tree(1)
    listed = open_webui(nodes)
    listed["chat"]["history"] = history
    for message in listed["chat"]["messages"]:
        message.pop("parentId")
    store = ingested(put_rows(tmp_path / "listed", [listed], "array"), tmp_path / "store")
    (conversation,) = store.read("conversations").to_dicts()
    assert texts(conversation) == [node["text"] for node in paths_of(nodes)[0]]


def test_one_chat_of_librechat_printed_over_several_lines_is_one_row(tmp_path):
    store = ingested(put_rows(tmp_path / "data", [librechat(drawn_tree(3))], "printed"), tmp_path / "store")
    assert rejected(store) == {}
    assert_conserved(store, 1)


SIBLINGS = [
    {"key": "n0", "parent": None, "role": "user", "text": "Which?", "model": None, "time": SECONDS},
    {"key": "n1", "parent": "n0", "role": "assistant", "text": "This.", "model": "heron-2", "time": SECONDS},
    {"key": "n2", "parent": "n0", "role": "assistant", "text": "That.", "model": "wren-1", "time": SECONDS + 1},
]


def test_pictures_of_open_webui_are_read_on_every_path_and_other_files_are_counted(tmp_path):
    row = open_webui(SIBLINGS)
    row["chat"]["history"]["messages"]["n0"]["files"] = [
        {"type": "image", "url": PICTURE}, {"type": "file", "name": "plan.pdf"}, {"type": "image", "url": "https://x.org/y.png"},
    ]  # fmt: skip
    store = ingested(put_rows(tmp_path / "data", [row], "array"), tmp_path / "store")
    for conversation in store.read("conversations").to_dicts():
        assert (len(conversation["image_ids"]), conversation["image_problems"]) == (1, ["image_missing"])
        assert conversation["unread_parts"] == ["file"]
    evidence = store.read("rejects").filter(reason="part_not_read")["evidence"].to_list()
    assert evidence == ["file in message 1 of line 1"] * 2


def test_pictures_that_differ_by_path_are_not_mistaken_for_each_other(tmp_path):
    row = open_webui(SIBLINGS)
    other = "data:image/png;base64," + base64.b64encode(image_bytes(6)).decode()
    row["chat"]["history"]["messages"]["n1"]["files"] = [{"type": "image", "url": PICTURE}]
    row["chat"]["history"]["messages"]["n2"]["files"] = [{"type": "image", "url": other}]
    store = ingested(put_rows(tmp_path / "data", [row], "array"), tmp_path / "store")
    ids = [each["image_ids"] for each in store.read("conversations").to_dicts()]
    assert [len(each) for each in ids] == [1, 1] and ids[0] != ids[1]


def test_thoughts_tools_and_pictures_of_librechat_are_read_or_counted(tmp_path):
    row = librechat(SIBLINGS[:2])
    row["messages"][0]["files"] = [{"type": "image/png", "filepath": "shown.png"}, {"type": "text/csv"}]
    row["messages"][1]["content"] = [
        {"type": "think", "think": "Hm."}, {"type": "text", "text": {"value": "First."}}, None,
        {"type": "tool_call", "tool_call": {"name": "web"}}, {"type": "text", "text": "Then."},
    ]  # fmt: skip
    data = put_rows(tmp_path / "data", [row], "jsonl")
    (data / "shown.png").write_bytes(image_bytes(7))
    store = ingested(data, tmp_path / "store")
    (conversation,) = store.read("conversations").to_dicts()
    assert texts(conversation) == ["Which?", "First.\nThen."]
    assert conversation["served"][0]["thinking"] == "Hm."
    assert (len(conversation["image_ids"]), sorted(conversation["unread_parts"])) == (1, ["file", "tool_call"])


def test_the_words_of_an_error_are_no_answer_of_a_model(tmp_path):
    row = librechat(SIBLINGS[:2])
    row["messages"][1] |= {"error": True, "text": "Something went wrong: quota"}
    store = ingested(put_rows(tmp_path / "data", [row], "jsonl"), tmp_path / "store")
    (conversation,) = store.read("conversations").to_dicts()
    assert (texts(conversation), conversation["null_turns"]) == (["Which?", ""], [1])


def test_the_nodes_of_one_answer_of_chatgpt_are_one_answer(tmp_path):
    row = chatgpt(SIBLINGS[:2])
    parts = {
        "t": ("assistant", {"content_type": "thoughts", "thoughts": [{"summary": "S", "content": "Hm."}]}, "all"),
        "c": ("assistant", {"content_type": "code", "text": "search()"}, "web"),
        "r": ("tool", {"content_type": "execution_output", "text": "found"}, "all"),
    }
    before = "n0"
    for key, (role, content, recipient) in parts.items():
        message = {"author": {"role": role}, "content": content, "recipient": recipient, "create_time": None}
        row["mapping"][key] = {"id": key, "message": message, "parent": before}
        before = key
    row["mapping"]["n1"]["parent"] = before
    shown = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}
    row["mapping"]["n0"]["message"]["content"] = {"content_type": "multimodal_text", "parts": [shown, "Which?"]}
    store = ingested(put_rows(tmp_path / "data", [row], "array"), tmp_path / "store")
    (conversation,) = store.read("conversations").to_dicts()
    assert texts(conversation) == ["Which?", "This."]
    assert conversation["image_problems"] == ["image_missing"]
    assert conversation["unread_parts"] == ["tool", "tool"]


@pytest.mark.parametrize(
    ("change", "reason", "evidence"),
    [
        ({"n0": {"parentId": "n1"}}, "bad_messages", "parents of messages go in a circle"),
        ({"n1": {"role": "user"}}, "bad_messages", "user and assistant do not take turns"),
        ({"n1": {"parentId": "gone"}}, "bad_messages", "the message before one is not there"),
        ({"n1": {"role": None}}, "unexpected_row", "KeyError where open-webui has a value of another type"),
        ({"n1": {"content": 3}}, "bad_messages", "content is neither text nor parts: int"),
    ],
)
def test_a_tree_that_contradicts_itself_is_one_reject_and_no_half_of_it_is_read(tmp_path, change, reason, evidence):
    broken = open_webui(SIBLINGS, "chat-0002")
    for key, values in change.items():
        broken["chat"]["history"]["messages"][key] |= values
    rows = [open_webui(SIBLINGS, "chat-0001"), broken, open_webui(SIBLINGS, "chat-0003")]
    store = ingested(put_rows(tmp_path / "data", rows, "array"), tmp_path / "store")
    assert_conserved(store, 3)
    assert store.read("rejects").select("line", "reason", "evidence").rows() == [(2, reason, evidence)]
    assert store.read("sightings").height == 4


@pytest.mark.parametrize("name", WRITERS)
def test_a_tree_of_which_a_message_is_gone_is_no_talk_that_begins_in_the_middle(tmp_path, name):
    rows = []
    for seed in range(12):
        nodes = drawn_tree(seed)
        with_children = [node for node in nodes if node["key"] in {other["parent"] for other in nodes}]
        gone = random.Random(seed).choice(with_children)
        # Below a message that is gone, LibreChat's nested form has no place for others.
        nested = name.endswith("nested")
        written = WRITERS[name](nodes, f"chat-{seed:04d}")
        rows.append(_without_node(written, gone["key"]) if not nested else _with_parent(written, gone["key"]))
    store = ingested(put_rows(tmp_path / "data", rows, "array"), tmp_path / "store")
    assert set(store.read("rejects")["evidence"]) == {"the message before one is not there"}
    assert store.read("conversations").is_empty()
    assert_conserved(store, len(rows))


def _without_node(row: Row, key: str) -> Row:
    """The chat without one of its messages."""
    if "messages" in row:
        return row | {"messages": [message for message in row["messages"] if message["messageId"] != key]}
    nodes = row["mapping"] if "mapping" in row else row["chat"]["history"]["messages"]
    del nodes[key]
    return row


def _with_parent(row: Row, key: str) -> Row:
    """The nested form, in which the children of a message name another parent, which is not there."""
    waiting = list(row["messagesTree"])
    while waiting:
        message = waiting.pop()
        waiting += message["children"]
        if message["parentMessageId"] == key:
            message["parentMessageId"] = "gone"
    return row


def block(kind: str, content: str, attributes: str = "") -> str:
    """What Open WebUI's server writes into an answer."""
    return f'<details type="{kind}" done="true"{attributes}>\n<summary>Some words</summary>\n{content}\n</details>\n'


BLOCKS = {
    "tool_calls": block("tool_calls", "", ' id="c" name="web" arguments="&quot;x&quot;"'),
    "code_interpreter": block("code_interpreter", "print(1)"),
}


@pytest.mark.parametrize("quoted", ["> Hm, is a < b?\n> Yes.", "&gt; Hm, is a &lt; b?\n&gt; Yes."])
def test_what_a_model_of_open_webui_thought_is_no_part_of_its_answer(tmp_path, quoted):
    row = open_webui(SIBLINGS[:2])
    row["chat"]["history"]["messages"]["n1"]["content"] = block("reasoning", quoted) + "This."
    store = ingested(put_rows(tmp_path / "data", [row], "array"), tmp_path / "store")
    (conversation,) = store.read("conversations").to_dicts()
    assert texts(conversation) == ["Which?", "This."]
    assert conversation["served"][0]["thinking"] == "Hm, is a < b?\nYes."
    assert conversation["unread_parts"] == []


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_tool_within_an_answer_of_open_webui_is_counted_and_no_part_of_its_words(tmp_path, kind):
    row = open_webui(SIBLINGS[:2])
    row["chat"]["history"]["messages"]["n1"]["content"] = f"First.\n{BLOCKS[kind]}\nThen."
    store = ingested(put_rows(tmp_path / "data", [row], "array"), tmp_path / "store")
    (conversation,) = store.read("conversations").to_dicts()
    assert texts(conversation) == ["Which?", "First.\nThen."]
    assert conversation["unread_parts"] == ["tool_call"]


@pytest.mark.parametrize("piece", ['<details type="x">', '<details type="x"', "<details ", "<summary>"])
def test_blocks_that_never_end_are_words_and_take_no_time_that_grows_with_their_square(tmp_path, piece):
    words = piece * 100_000
    row = open_webui(SIBLINGS[:2])
    row["chat"]["history"]["messages"]["n1"]["content"] = words
    store = ingested(put_rows(tmp_path / "data", [row], "array"), tmp_path / "store")
    assert texts(store.read("conversations").to_dicts()[0]) == ["Which?", words]


def test_blocks_that_a_person_typed_are_the_words_of_the_person(tmp_path):
    row = open_webui(SIBLINGS[:2])
    typed = block("reasoning", "> Hm.") + "What is this?"
    row["chat"]["history"]["messages"]["n0"]["content"] = typed
    store = ingested(put_rows(tmp_path / "data", [row], "array"), tmp_path / "store")
    (conversation,) = store.read("conversations").to_dicts()
    assert texts(conversation) == [typed, "This."]


def test_a_tree_without_messages_is_a_reject(tmp_path):
    row = open_webui(SIBLINGS)
    row["chat"] = {"title": "T", "history": {"currentId": None, "messages": {}}}
    store = ingested(put_rows(tmp_path / "data", [row], "array"), tmp_path / "store")
    assert rejected(store) == {("rows.json", 1): "no_messages"}


def test_a_tree_whose_paths_grow_without_end_is_one_reject(tmp_path):
    nodes = [{**SIBLINGS[number % 2], "key": f"n{number}"} for number in range(3000)]
    for number, node in enumerate(nodes):
        node["parent"] = f"n{number - 1}" if number else None
    leaves = [{**SIBLINGS[2], "key": f"m{number}", "parent": f"n{number}"} for number in range(0, 3000, 2)]
    row = open_webui(SIBLINGS)
    messages = {
        node["key"]: {"parentId": node["parent"], "role": node["role"], "content": "x"} for node in nodes + leaves
    }
    row["chat"]["history"]["messages"] = messages
    store = ingested(put_rows(tmp_path / "data", [row], "array"), tmp_path / "store")
    assert rejected(store) == {("rows.json", 1): "bad_messages"}


def test_a_chat_of_the_first_weeks_of_chatgpt_has_its_time(tmp_path):
    december = datetime(2022, 12, 3, 12, tzinfo=UTC)
    nodes = [node | {"time": december.timestamp() + number} for number, node in enumerate(drawn_tree(3))]
    row = chatgpt(nodes) | {"create_time": december.timestamp()}
    store = ingested(put_rows(tmp_path / "data", [row], "array"), tmp_path / "store")
    assert rejected(store) == {}
    assert set(store.read("conversations")["day"]) == {december.date()}


def test_an_upload_of_chatgpt_that_is_no_picture_is_counted(tmp_path):
    row = chatgpt(drawn_tree(3))
    uploads = [{"name": "a.pdf", "mime_type": "application/pdf"}, {"name": "a.png", "mime_type": "image/png"}]
    first = row["mapping"]["n0"]["message"]
    first["metadata"]["attachments"] = uploads
    first["content"]["parts"].append({"content_type": "image_asset_pointer", "asset_pointer": "file-service://a"})
    store = ingested(put_rows(tmp_path / "data", [row], "array"), tmp_path / "store")
    told = store.read("conversations").select("unread_parts", "image_problems").unique().rows()
    assert told == [(["attachment"], ["image_missing"])]
