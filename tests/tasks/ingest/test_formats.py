"""Published datasets are read like logs: Parquet, `datasets` folders and JSON Lines."""

import base64
import datetime
import gzip
import json

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from schemas.errors import BadInput
from schemas.items.conversation import UNDATED_BEFORE
from tasks.ingest.formats import BUILT_IN
from tasks.ingest.log_files import source_files
from tests.builders import image_bytes
from tests.tasks.ingest.logs import DAY, chat, ingested, rejected, texts, write
from tests.tasks.ingest.test_front_ends import WRITERS
from tests.tasks.ingest.test_text_arenas import SETS

HASH = "0123456789abcdef" * 2
TURN = [{"role": "user", "content": "What is this?"}, {"role": "assistant", "content": "A cat."}]
IMAGE = {"bytes": image_bytes(1), "path": f"{HASH}.png"}
OTHER = {"bytes": image_bytes(2), "path": None}
BATTLE = {
    "question_id": "a" * 32, "model_a": "x", "model_b": "y", "winner": "tie (bothbad)", "conversation_a": TURN,
    "conversation_b": TURN,
}  # fmt: skip
ROWS = {
    "vision-arena-chat": {
        "images": [IMAGE],
        "conversation_id": "c" * 32,
        "model": "x",
        "num_turns": 1,
        "conversation": [[message] for message in TURN],
        "user_id": 17,
        "language": "English",
        "tstamp": 1718884800.5,
        "is_preset": False,
    },
    "vision-arena-battle": BATTLE | {"images": [IMAGE], "judge": "arena_user_abc", "tstamp": 1718884800.5},
    "wildvision-chat": {
        "question_id": "d" * 32,
        "model": "x",
        "conversation": TURN,
        "language": "English",
        "image": OTHER,
        "turn": 1,
    },
    "wildvision-battle": BATTLE
    | {"image": OTHER, "turn": 1, "anony": True, "language": "English", "tstamp": 1718884800, "judge": "j"},
    "human-preference": {
        "id": "8f14e45f-ceea-467f-a8f3-1b2c3d4e5f60",
        "model_a": "x",
        "model_b": "y",
        "winner": "both_bad",
        "evaluation_session_id": "s1",
        "conversation_a": [
            {"role": m["role"], "content": [{"type": "text", "text": m["content"], "image": None}]} for m in TURN
        ],
        "conversation_b": [
            {"role": m["role"], "content": [{"type": "text", "text": m["content"], "image": None}]} for m in TURN
        ],
        "is_code": False,
    },
    "lmsys-chat": {
        "conversation_id": "e" * 32,
        "model": "x",
        "conversation": TURN,
        "turn": 1,
        "language": "English",
        "redacted": False,
    },
    "sharegpt": {"conversations": [{"from": "human", "value": "What is this?"}, {"from": "gpt", "value": "A cat."}]},
    "openai-messages": {"messages": [{"role": "system", "content": "Be kind."}, *TURN]},
}
PICTURED = ("vision-arena-chat", "vision-arena-battle", "wildvision-chat", "wildvision-battle")


def put(folder, rows: list[dict], kind: str):
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "parquet":
        table = pa.Table.from_pylist(rows)
        pq.write_table(table, folder / "train-00000-of-00001.parquet", row_group_size=2)
    elif kind == "arrow":  # what `datasets.save_to_disk` leaves
        table = pa.Table.from_pylist(rows)
        with (
            pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as sink,
            pa.ipc.new_stream(sink, table.schema) as stream,
        ):
            stream.write_table(table)
        (folder / "dataset_info.json").write_text("{}")
        (folder / "state.json").write_text("{}")
    else:
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        packed = {"gz": gzip.compress, "zst": zstandard.ZstdCompressor().compress}.get(kind.rpartition(".")[2], bytes)
        (folder / f"rows.{kind}").write_bytes(packed(content))
    return folder


def test_every_format_is_tested():
    of_their_own = {name for name in BUILT_IN if name.startswith("comparia")}  # test_comparia.py and so on
    assert {*ROWS, *SETS, *WRITERS, *of_their_own, "openwebui-feedback", "bench-items"} - {"librechat-nested"} == set(
        BUILT_IN
    )


def test_an_item_is_a_conversation_that_nobody_answered_and_a_wrong_one_is_rejected(tmp_path):
    item = {
        "item_id": "a" * 32,
        "instruction": "What is this?",
        "images": [IMAGE],
        "captions": ["A cat."],
        "problem": None,
    }
    unlike = item | {"item_id": "b" * 32, "captions": ["A cat.", "A dog."]}
    told = item | {"item_id": "c" * 32, "problem": "no image"}
    strange = item | {"item_id": "d" * 32, "problem": "text of somebody's file"}
    data = put(tmp_path / "data", [item, unlike, told, strange], "parquet")
    assert [found for _, found in source_files(data)] == ["bench-items"]
    store = ingested(data, tmp_path / "store")
    (row,) = store.read("conversations").to_dicts()
    assert (texts(row), len(row["image_ids"]), row["conversation_id"]) == (["What is this?"], 1, "a" * 32)
    rejects = store.read("rejects").sort("line")
    assert set(rejects["reason"]) == {"bad_item"}
    assert rejects["evidence"].to_list() == [
        "captions unlike images in number", "no image", "another problem of its file",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in ROWS for kind in ("parquet", "arrow", *(() if name in PICTURED else ("jsonl",)))],
)
def test_a_row_of_a_published_dataset_is_known_and_read(tmp_path, name, kind):
    data = put(tmp_path / "data", [ROWS[name]], kind)
    assert [found for _, found in source_files(data)] == [name]
    store = ingested(data, tmp_path / "store")
    assert rejected(store) == {}
    rows, battles = store.read("conversations").to_dicts(), store.read("battles").to_dicts()
    assert [texts(row) for row in rows] == [["What is this?", "A cat."]] * (2 if "winner" in ROWS[name] else 1)
    assert [battle["winner"] for battle in battles] == (["tie_bothbad"] if "winner" in ROWS[name] else [])
    assert [len(row["image_ids"]) for row in rows] == [int(name in PICTURED)] * len(rows)
    assert store.read("images").height == int(name in PICTURED)


def test_ids_times_and_images_of_a_release_are_kept(tmp_path):
    store = ingested(put(tmp_path / "data", [ROWS["vision-arena-battle"]], "parquet"), tmp_path / "store")
    (battle,) = store.read("battles").to_dicts()
    assert (battle["battle_id"], battle["model_a"], battle["model_b"], battle["anonymous"]) == (
        "a" * 32,
        "x",
        "y",
        True,
    )
    assert battle["tstamp"] == datetime.datetime(2024, 6, 20, 12, 0, 0, 500_000, tzinfo=datetime.UTC)
    assert set(store.read("sightings")["images"].explode()) == {HASH}
    assert "arena_user_abc" not in str(store.read("sightings").to_dicts())


def test_rows_without_a_time_keep_their_order_and_count_as_undated(tmp_path):
    rows = [ROWS["lmsys-chat"] | {"conversation_id": f"{n:032x}", "tstamp": None} for n in range(3)]
    dated = ROWS["lmsys-chat"] | {"conversation_id": "f" * 32, "tstamp": 1_700_000_000.0}
    store = ingested(put(tmp_path / "data", [*rows, dated], "parquet"), tmp_path / "store")
    known = store.read("conversations").select("conversation_id", pl.col("tstamp") < UNDATED_BEFORE)
    assert known.rows() == [*((row["conversation_id"], True) for row in rows), ("f" * 32, False)]


def test_an_image_in_a_row_that_is_none_is_a_reject_like_any_other(tmp_path):
    row = ROWS["wildvision-chat"] | {"image": {"bytes": b"not a picture", "path": "x.png"}}
    store = ingested(put(tmp_path / "data", [row], "parquet"), tmp_path / "store")
    assert store.read("conversations")["image_problems"].to_list() == [["not_an_image"]]
    assert list(rejected(store).values()) == ["not_an_image"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"winner": "model_c"}, "unknown_winner"),
        ({"conversation_a": None}, "unexpected_row"),
        ({"conversation_b": [{"role": "user", "content": 7}]}, "bad_messages"),
        ({"conversation_a": TURN[::-1]}, "bad_messages"),
        ({"conversation_a": []}, "no_messages"),
        ({"model_b": ""}, "bad_model"),
        ({"tstamp": 1e20}, "bad_timestamp"),
        ({"timestamp": "yesterday"}, "bad_timestamp"),
    ],
)
def test_a_row_that_cannot_be_used_is_rejected_with_its_number(tmp_path, change, reason):
    good = ROWS["human-preference"]
    store = ingested(put(tmp_path / "data", [good, good | {"id": "f" * 32} | change], "jsonl"), tmp_path / "store")
    assert rejected(store) == {("rows.jsonl", 2): reason}
    assert store.read("battles").height == 1


def test_the_verdicts_of_every_release_mean_the_same(tmp_path):
    winners = ["model_a", "model_b", "tie", "tie (bothbad)", "both_bad"]
    rows = [ROWS["human-preference"] | {"id": f"{n:032x}", "winner": winner} for n, winner in enumerate(winners)]
    store = ingested(put(tmp_path / "data", rows, "parquet"), tmp_path / "store")
    assert store.read("battles").sort("line")["winner"].to_list() == [
        "model_a",
        "model_b",
        "tie",
        "tie_bothbad",
        "tie_bothbad",
    ]


def test_names_that_the_voter_saw_are_known_in_every_spelling_of_no(tmp_path):
    spellings = [False, 0, 0.0, "False", "no", True, None, "true"]
    rows = [ROWS["human-preference"] | {"id": f"{n:032x}", "anony": anony} for n, anony in enumerate(spellings)]
    store = ingested(put(tmp_path / "data", rows, "jsonl"), tmp_path / "store")
    assert store.read("battles").sort("line")["anonymous"].to_list() == [False] * 5 + [True] * 3


def test_openai_rows_carry_images_as_data_and_fetch_none_from_the_network(tmp_path):
    data = "data:image/png;base64," + base64.b64encode(image_bytes(4)).decode()
    parts = [
        {"type": "text", "text": "What?"},
        *({"type": "image_url", "image_url": {"url": url}} for url in (data, "https://example.com/x.png")),
    ]
    row = {
        "id": "chatcmpl-12345678",
        "model": "x",
        "user": "u",
        "created": 1718884800,
        "messages": [{"role": "user", "content": parts}, TURN[1]],
    }
    store = ingested(put(tmp_path / "data", [row], "jsonl"), tmp_path / "store")
    (found,) = store.read("conversations").to_dicts()
    assert (texts(found), len(found["image_ids"]), found["image_problems"]) == (
        ["What?", "A cat."],
        1,
        ["image_missing"],
    )
    assert (found["conversation_id"], found["model"]) == ("chatcmpl-12345678", "x")


def test_a_single_file_is_enough_and_a_grown_one_costs_its_new_rows(tmp_path):
    path = put(tmp_path / "data", [ROWS["openai-messages"]], "jsonl") / "rows.jsonl"
    assert ingested(path, tmp_path / "store").read("conversations").height == 1
    with path.open("a") as stream:
        stream.write(json.dumps(ROWS["openai-messages"]) + "\nbroken\n")
    store = ingested(path, tmp_path / "store")
    assert (store.read("conversations").height, rejected(store)) == (2, {("rows.jsonl", 3): "not_json"})


def test_logs_are_meant_when_logs_are_there(tmp_path):
    write(tmp_path, DAY, chat("a"))
    put(tmp_path, [ROWS["lmsys-chat"]], "parquet")
    assert [(file.source, name) for file, name in source_files(tmp_path)] == [(DAY, "arena-logs")]
    assert [name for _, name in source_files(tmp_path, "lmsys-chat") if name != "lmsys-chat"] == []


def test_what_fits_no_format_is_one_clear_line(tmp_path):
    put(tmp_path / "data", [{"prompt": "x", "answer": "y"}], "jsonl")
    with pytest.raises(
        BadInput, match=r"'rows.jsonl' .*columns: answer, prompt.*format: arena-logs, vision-arena-chat"
    ):
        source_files(tmp_path / "data")
    with pytest.raises(BadInput, match=r"'lmsys-chta'.*Did you mean lmsys-chat"):
        source_files(tmp_path / "data", "lmsys-chta")
    with pytest.raises(BadInput, match="these files have none"):
        source_files(put(tmp_path / "chats", [ROWS["lmsys-chat"]], "parquet"), since=datetime.date(2024, 1, 1))


def test_taking_items_in_leaves_the_images_of_the_arena_as_they_are(tmp_path):
    logs = tmp_path / "logs"
    write(logs, DAY, chat("a", images=["a" * 32]), chat("b", images=["b" * 32]))
    (logs / "serve_images").mkdir()
    (logs / "serve_images" / f"{'a' * 32}.png").write_bytes(image_bytes(3))
    store = ingested(logs, tmp_path / "store")
    before = store.read("rejects").rows()
    assert [row[0] for row in before] == ["b" * 32]
    item = {"item_id": "c" * 32, "instruction": "What is this?", "images": [IMAGE], "captions": None, "problem": None}
    data = put(tmp_path / "items", [item], "parquet") / "train-00000-of-00001.parquet"
    store = ingested(data, tmp_path / "store", format="bench-items")
    assert store.read("rejects").rows() == before
    assert sorted(map(len, store.read("conversations")["image_ids"])) == [0, 1, 1]
