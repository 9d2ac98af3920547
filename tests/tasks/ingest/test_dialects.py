"""Logs and datasets as other tools write them are read as what they say; what cannot be read costs its row alone."""

import json
import math
from datetime import UTC, datetime

import pandas
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.errors import BadInput
from schemas.items.conversation import RecordType
from tasks.ingest.image_files import preset_files
from tasks.ingest.log_files import source_files
from tasks.ingest.quarantine import line_is_flagged, row_is_flagged
from tests.builders import image_bytes
from tests.places import DATA, ROOT, needs_data
from tests.tasks.ingest.logs import DAY, NOON, chat, image_name, ingested, rejected, served, state, texts, vote, write

EXAMPLES = DATA / "public-reports"
TYPES = [kind.value for kind in RecordType]
AT = datetime.fromtimestamp(NOON, UTC)
ROWS = [
    {
        "conversation_id": f"dialect{n}", "model": " model-x\t" if n else "model-x", "tstamp": NOON + n, "score": None,
        "conversation": [{"role": "user", "content": f"Is {n} NaN? [{{"}, {"role": "assistant", "content": "é 🪁"}],
    }
    for n in range(3)
]  # fmt: skip


def put(folder, name, content):
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def arrow(table, new, **options):
    sink = pa.BufferOutputStream()
    with new(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as file:
        file.write_table(table)
    return sink.getvalue().to_pybytes()


def test_a_dataset_is_the_same_in_every_shape_of_file(tmp_path):
    frame, table, data = pandas.DataFrame(ROWS), pa.Table.from_pylist(ROWS), tmp_path / "data"
    lines = [json.dumps(row | {"score": math.nan, "more": [math.inf, -math.inf]}) for row in ROWS]
    put(data, "nan.jsonl", "\n".join(lines))
    put(data, "nan-array.json", f"[{','.join(lines)}]")
    put(data, "array.json", json.dumps(ROWS))
    put(data, "indented.ndjson", "\ufeff" + json.dumps(ROWS, indent=4))
    for orient in ("columns", "records", "index", "split", "table"):
        frame.to_json(data / f"pandas-{orient}.json.gz", orient=orient)
    put(data, "stream.arrow", arrow(table, pa.ipc.new_stream))
    put(data, "file.arrow", arrow(table, pa.ipc.new_file))
    put(data, "lz4.feather", arrow(table, pa.ipc.new_file, compression="lz4"))
    pl.DataFrame(ROWS).write_ipc(data / "polars.feather")
    store = ingested(data, tmp_path / "store", images=None)
    assert rejected(store) == {}
    read = store.read("sightings").sort("source", "line")
    said = [(row["tstamp"], row["model"], row["conv_id"]) for row in read.iter_rows(named=True)]
    assert (
        len(said) == 3 * 13
        and said
        == [(datetime.fromtimestamp(row["tstamp"], UTC), "model-x", row["conversation_id"]) for row in ROWS] * 13
    )
    assert {tuple(texts(row)) for row in store.read("conversations").to_dicts()} == {
        tuple(message["content"] for message in row["conversation"]) for row in ROWS
    }


def test_a_broken_row_of_an_array_costs_itself_alone_and_more_rows_are_read_later(tmp_path):
    good = [json.dumps({"id": f"dialect{n}", "messages": ROWS[n]["conversation"]}) for n in range(3)]
    rows = [good[0], "3", good[1].replace('"role":', '"role"', 1), good[2]]
    put(tmp_path / "data", "rows.json", "[\n" + ",\n".join(rows))
    store = ingested(tmp_path / "data", tmp_path / "store")
    assert rejected(store) == {("rows.json", 2): "not_a_record", ("rows.json", 3): "not_json"}
    assert store.read("conversations")["line"].to_list() == [1, 4]
    put(tmp_path / "data", "rows.json", "[\n" + ",\n".join(good) + "\n]")
    store = ingested(tmp_path / "data", tmp_path / "store")
    assert (rejected(store), store.read("conversations")["line"].to_list()) == ({}, [1, 2, 3])


@pytest.mark.parametrize("name", ["mylog.json", "day/mylog.ndjson.gz"])
def test_a_log_under_another_name_is_read_whether_or_not_its_format_is_given(tmp_path, name):
    path = write(tmp_path / "logs", name, chat("a", images=[image_name("a")]), vote("b", "c"))
    served(path.parent, image_name("a"))
    for place, given in (
        (path, None),
        (path, "arena-logs"),
        (tmp_path / "logs", None),
        (tmp_path / "logs", "arena-logs"),
    ):
        store = ingested(place, tmp_path / f"store{place.name}{given}", format=given)
        read = [store.read(table).height for table in ("conversations", "battles", "images")]
        assert (rejected(store), read) == ({}, [3, 1, 1])


def test_a_log_of_one_file_may_have_any_name_and_a_table_is_none(tmp_path):
    path = write(tmp_path, "server.log.2024", b"", chat("a"))
    assert [name for _, name in source_files(path)] == ["arena-logs"]
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "x.parquet")
    path.unlink()
    with pytest.raises(BadInput, match=r"holds no log file; expected names like 2024-06-20-conv\.json, or other"):
        source_files(tmp_path, "arena-logs")


def test_a_file_of_another_kind_is_told_which_files_are_read(tmp_path):
    (tmp_path / "votes.xlsx").write_text("model_a,model_b\n")
    with pytest.raises(
        BadInput, match=r"'votes.xlsx' is neither a log nor a dataset; .* \.parquet, .*\.csv, .*\.ndjson$"
    ):
        source_files(tmp_path / "votes.xlsx")


def test_a_log_that_is_an_array_or_has_nan_is_read_with_its_flags(tmp_path):
    records = [
        chat("a", images=[image_name("a")], at=1) | {"csam": math.nan, "gen_params": {"temperature": math.nan}},
        chat("b", images=[image_name("b")], at=2) | {"state": json.dumps(state("b") | {"offset": 0, "p": math.inf})},
        chat("c", images=[image_name("c")], at=3) | {"csam": True},
        chat("d", images=[image_name("c").upper()], at=4),
    ]
    write(tmp_path / "logs", DAY, json.dumps(records, indent=1).encode())
    store = ingested(tmp_path / "logs", tmp_path / "store")
    assert {line: reason for (_, line), reason in rejected(store).items() if line} == dict.fromkeys(
        (3, 4), "csam_flagged"
    )
    assert [row["conversation_id"] for row in store.read("conversations").to_dicts()] == [
        record["state"]["conv_id"] if isinstance(record["state"], dict) else state("b")["conv_id"]
        for record in records[:2]
    ]


@pytest.mark.parametrize("flag", ["csam", "has_csam_image", "sexual/minors"])
def test_nan_is_no_flag_and_infinity_is_one_where_null_is_none(flag):
    assert not line_is_flagged(json.dumps({flag: math.nan}).encode()) and not row_is_flagged({flag: math.nan})
    assert row_is_flagged({flag: True}) and line_is_flagged(json.dumps({flag: True, "score": math.nan}).encode())


def test_a_flagged_line_that_spells_an_image_in_capitals_holds_it(tmp_path):
    capital = image_name("a").upper()
    lines = [chat("a", images=[capital]) | {"csam": True}, chat("b", images=[image_name("a")]), chat("c")]
    broken = json.dumps(chat("d", images=[image_name("b").upper()]) | {"csam": True}).encode()[:-1]
    write(tmp_path / "logs", DAY, *lines, broken, chat("e", images=[image_name("b")]))
    served(tmp_path / "logs", capital, image_name("b"))
    looked = []
    store = ingested(tmp_path / "logs", tmp_path / "store", looked)
    assert (store.read("conversations").height, looked) == (1, [])


def test_images_are_found_whatever_the_case_of_their_file_and_only_where_it_is_clear(tmp_path):
    names = [image_name(letter) for letter in "abcd"]
    write(tmp_path / "logs", DAY, *(chat(name[-2:] * 4, images=[name]) for name in names))
    folder = served(tmp_path / "logs") / "serve_images"
    content = [image_bytes(seed) for seed in range(5)]
    for seed, file in enumerate((f"{names[0].upper()}.PNG", f"{names[1]}.png", f"{names[1].upper()}.png")):
        (folder / file).write_bytes(content[seed])
    for seed, file in enumerate((f"{names[2].upper()}.png", f"{names[2].upper()}.PNG"), 3):
        (folder / file).write_bytes(content[seed])
    (folder / f"{names[3].upper()}.PNG").symlink_to("/etc/hostname")
    store = ingested(tmp_path / "logs", tmp_path / "store")
    files = store.read("image_files").select("name", "size_bytes").sort("name").rows()
    assert files == [(f"{names[n]}.png", len(content[n])) for n in (0, 1)]
    problems = {source: reason for (source, _), reason in rejected(store).items()}
    assert problems == {names[2]: "image_missing", f"{names[3]}.png": "image_path_escape"}


UNITS = "seconds, milliseconds, microseconds or nanoseconds since 1970"


def test_times_in_every_unit_are_the_same_day_and_one_that_is_none_names_its_unit(tmp_path):
    units = [NOON, NOON * 1e3, int(NOON) * 10**6, int(NOON) * 10**9, str(int(NOON)), {"$date": int(NOON) * 1000}]
    wrong = [1600000000, 1600000000000, "yesterday", 20240620120000]
    rows = [{"messages": ROWS[0]["conversation"], "created": at} for at in (*units, *wrong)]
    put(tmp_path / "data", "rows.json", json.dumps(rows))
    moments = [2**62, 0, int(NOON) * 10**6]
    table = pa.table({
        "messages": [ROWS[0]["conversation"]] * 3, "created_at": pa.array(moments, pa.timestamp("us")),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "data" / "rows.parquet")
    nanoseconds = pa.array([int(NOON) * 10**9 + 1], pa.timestamp("ns", "Asia/Kathmandu"))
    dated = pa.table({"messages": [ROWS[0]["conversation"]], "created_at": nanoseconds})
    pq.write_table(dated, tmp_path / "data" / "zoned.parquet")
    store = ingested(tmp_path / "data", tmp_path / "store")
    dated = store.read("sightings").filter(pl.col("tstamp") == AT)["source"].value_counts().sort("source")
    assert dated.rows() == [("rows.json", 6), ("rows.parquet", 1), ("zoned.parquet", 1)]
    evidence = store.read("rejects").sort("source", "line")["evidence"].to_list()
    assert evidence == [
        "read as seconds since 1970, not between 2022 and 2099",
        "read as milliseconds since 1970, not between 2022 and 2099",
        f"a text that is neither an ISO 8601 nor an RFC 2822 time, nor {UNITS}",
        f"a number that is no time before 2100 in {UNITS}",
        "read as a date and time, not between 2022 and 2099",
    ]
    assert store.read("sightings").height == 9  # the time that Python does not have counts as none


def test_a_model_with_blanks_around_its_name_is_one_model(tmp_path):
    sides = [state("a", model_name="x "), state("b", model_name="\u00a0y")]
    write(tmp_path / "logs", DAY, vote(*sides, models=["x", "y"]), chat("c", model="\tx"), chat("d", model=" \n"))
    store = ingested(tmp_path / "logs", tmp_path / "store")
    assert sorted(store.read("conversations")["model"]) == ["x", "x", "y"]
    assert rejected(store) == {(DAY, 3): "bad_model"}


PAGE = (ROOT / "docs" / "logs.md").read_text(encoding="utf-8")


def test_the_lines_that_the_page_shows_are_read_and_are_of_every_type(tmp_path):
    _, _, section = PAGE.partition("\n### A line of a log\n")
    shown = section.partition("```json\n")[2].partition("```")[0]
    records = [json.loads(line) for line in shown.splitlines()]
    (named,) = {name for record in records[:3] for _, (_, [name]) in [record["state"]["messages"][0]]}
    put(served(tmp_path / "logs", named), "2024-06-20-conv.json", shown)
    store = ingested(tmp_path / "logs", tmp_path / "store")
    assert (len(records), {record["type"] for record in records}) == (11, {*TYPES})
    assert (rejected(store), store.read("images").height, store.read("conversations").height) == ({}, 1, 13)
    kite = store.read("conversations").row(by_predicate=pl.col("conversation_id") == "kite0001", named=True)
    assert (kite["line"], kite["feedback"], len(kite["turns"]), len(kite["image_ids"])) == (3, ["upvote"], 4, 1)
    battles = store.read("battles").select("winner", "anonymous").rows()
    assert battles == [("model_a", True), ("model_b", True), ("tie", False), ("tie_bothbad", True)]


@needs_data
def test_reported_files_are_read(tmp_path):
    whole = {"nan-in-lines/chats.jsonl": 4, "nan-in-lines/2024-06-10-conv.json": 2, "norway/2024-06-10-conv.json": 6}
    for name, rows in whole.items():
        store = ingested(EXAMPLES / name, tmp_path / name)
        assert (rejected(store), store.read("conversations").height) == ({}, rows)
    assert {"no", "null", "1e3", "2024-01-01"} <= {*store.read("conversations")["model"]}
    store = ingested(EXAMPLES / "times-in-milliseconds" / "chats.jsonl", tmp_path / "times")
    assert rejected(store) == {}
    at = sorted(f"{each:%Y-%m-%d %H:%M:%S.%f}" for each in set(store.read("conversations")["tstamp"]))
    assert at == [
        "2022-11-09 13:20:00.000000", "2024-06-10 06:13:20.000000", "2024-06-10 06:13:20.123000",
        "2024-10-27 00:30:00.000000", "2024-10-27 01:30:00.000000", "2024-10-27 01:30:00.123456",
    ]  # fmt: skip


@pytest.mark.parametrize("spelled", ["art/Blåbær.png", "ART/BLÅBÆR.PNG", "art\\blåbær.png", ".\\Art\\bla\u030abær.Png"])
def test_an_example_image_is_found_under_another_spelling_of_its_path(tmp_path, spelled):
    put(tmp_path, "presets.json", json.dumps([{"dataset": "d", "path": spelled}]))
    put(tmp_path / "art", "blåbær.png", image_bytes(1))
    (found,) = preset_files(tmp_path)
    assert found.file == tmp_path / "art" / "blåbær.png"
    put(tmp_path, "presets.json", json.dumps([{"dataset": "d", "path": "..\\out.png"}]))
    with pytest.raises(BadInput, match="leads out of"):
        preset_files(tmp_path)
