"""`--format list`, and files that hold other things than lines."""

import gzip
import json

import pytest

from schemas.errors import BadInput
from tasks.ingest.formats import BUILT_IN, format_names
from tasks.ingest.log_files import source_files
from tests.tasks.ingest.foreign import assert_conserved, put_rows
from tests.tasks.ingest.logs import DAY, chat, ingested, rejected, texts, write
from tests.tasks.ingest.test_formats import TURN


def messages(number: int) -> dict:
    return {"id": f"chat-{number:08d}", "model": "wren-1", "messages": [{**TURN[0], "content": f"Q{number}"}, TURN[1]]}


@pytest.mark.parametrize("command", ["ingest", "run"])
def test_all_formats_are_listed_without_logs_and_store(curate, command):
    status, out, err = curate(command, "--format", "list")
    assert (status, err) == (0, "")
    assert out.splitlines()[0].split() == ["format", "what", "it", "is", "files", "has", "no"]
    assert [line.split()[0] for line in out.splitlines() if not line.startswith(" ")][1:] == format_names()


def test_every_format_says_what_it_is():
    assert [name for name, shape in BUILT_IN.items() if not shape.about] == []


@pytest.mark.parametrize("kind", ["jsonl", "array", "printed", "list", "parquet", "arrow"])
def test_a_file_holds_lines_an_array_printed_objects_or_the_list_of_an_api(tmp_path, kind):
    rows = [messages(number) for number in range(7)]
    store = ingested(put_rows(tmp_path / "data", rows, kind), tmp_path / "store")
    assert rejected(store) == {}
    assert_conserved(store, len(rows))
    by_line = store.read("conversations").sort("line").to_dicts()
    assert [texts(row)[0] for row in by_line] == [f"Q{number}" for number in range(7)]


def test_several_lists_of_an_api_follow_each_other(tmp_path):
    folder = put_rows(tmp_path / "data", [messages(0), messages(1)], "list")
    path = folder / "rows.json"
    path.write_text(path.read_text() + "\n" + path.read_text().replace("chat-0000", "chat-1111"))
    store = ingested(folder, tmp_path / "store")
    assert (store.read("conversations").height, rejected(store)) == (4, {})


def test_a_broken_element_of_a_printed_list_is_one_reject_and_the_others_are_read(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    good = '{"messages": [{"role": "user", "content": "Q"}]}'
    elements = f'[\n  {good},\n  {{"messages": [oh\n  ]}},\n  {good}\n ]'
    (folder / "rows.json").write_text(f'{{\n "object": "list",\n "data": {elements},\n "has_more": false\n}}\n')
    store = ingested(folder, tmp_path / "store")
    assert rejected(store) == {("rows.json", 2): "not_json"}
    assert_conserved(store, 3)


def test_a_record_of_a_log_that_is_broken_into_lines_stays_lines(tmp_path):
    write(tmp_path, DAY, b'{\n"type": "chat",\n"tstamp": 1', chat("a"))
    store = ingested(tmp_path, tmp_path / "store")
    assert rejected(store) == dict.fromkeys([(DAY, 1), (DAY, 2), (DAY, 3)], "not_json")


def test_json_of_another_format_beside_files_that_fit_is_read_and_rejected(tmp_path):
    data = put_rows(tmp_path / "data", [messages(0)], "jsonl")
    (data / "other.jsonl").write_text('{"prompt": "x"}\n')
    assert [name for _, name in source_files(data, "openai-messages")] == ["openai-messages"] * 2
    store = ingested(data, tmp_path / "store", format="openai-messages")
    assert rejected(store) == {("other.jsonl", 1): "unexpected_row"}


EMPTY = {
    "empty.jsonl": b"",
    "mark.jsonl": b"\xef\xbb\xbf",
    "array.json": b"[]",
    "list.json": b'{"object": "list", "data": [], "has_more": false}',
    "empty.csv": b"",
    "packed.jsonl.gz": gzip.compress(b""),
}
"""File -> its content, which is no row."""


@pytest.mark.parametrize("name", EMPTY)
def test_a_file_without_a_row_stops_no_other_file(tmp_path, name):
    data = put_rows(tmp_path / "data", [messages(0)], "jsonl")
    (data / name).write_bytes(EMPTY[name])
    store = ingested(data, tmp_path / "store")
    assert store.read("conversations").height == 1
    assert set(rejected(store).values()) <= {"blank_line"}


@pytest.mark.parametrize("name", EMPTY)
def test_a_file_without_a_row_alone_is_one_line_that_says_so(tmp_path, name):
    (tmp_path / name).write_bytes(EMPTY[name])
    with pytest.raises(BadInput, match=f"no row in .*{name}.*; give files that hold some$"):
        source_files(tmp_path / name)


def test_rows_that_come_into_an_empty_file_later_are_read_as_what_they_are(tmp_path):
    data = put_rows(tmp_path / "data", [messages(0)], "jsonl")
    (data / "later.jsonl").write_bytes(b"")
    ingested(data, tmp_path / "store")
    (data / "later.jsonl").write_text(json.dumps({"conversations": [{"from": "human", "value": "Late?"}]}) + "\n")
    store = ingested(data, tmp_path / "store")
    assert sorted(texts(row)[0] for row in store.read("conversations").to_dicts()) == ["Late?", "Q0"]
