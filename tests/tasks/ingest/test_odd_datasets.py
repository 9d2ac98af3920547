"""Published datasets as people really have them, and formats that another installed package brings."""

import gzip
import json
import re
import sys
from pathlib import Path

import datasets
import pytest
import zstandard

from schemas.errors import BadInput
from tasks.ingest.formats import adapter
from tasks.ingest.log_files import source_files
from tests.tasks.ingest.logs import DAY, chat, ingested, rejected, texts, write
from tests.tasks.ingest.test_formats import IMAGE, PICTURED, ROWS

CHAT, BATTLE = json.dumps(ROWS["openai-messages"]), ROWS["human-preference"]


def put(tmp_path, content: bytes, name: str = "rows.jsonl"):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("name", PICTURED)
def test_a_dataset_with_images_that_datasets_itself_saved_is_known_and_read(tmp_path, name):
    column = "image" if "image" in ROWS[name] else "images"
    row = ROWS[name] | {column: IMAGE if column == "image" else [IMAGE, IMAGE]}
    made = datasets.Dataset.from_list([row, row | {column: None if column == "image" else []}])
    feature = datasets.Image() if column == "image" else datasets.List(datasets.Image())
    datasets.DatasetDict(train=made.cast_column(column, feature)).save_to_disk(tmp_path / "data")
    assert {found for _, found in source_files(tmp_path / "data")} == {name}
    store = ingested(tmp_path / "data", tmp_path / "store")
    assert rejected(store) == {}
    assert store.read("images").height == 1
    assert store.read("sightings").height == (4 if "winner" in row else 2)


def test_what_is_read_and_as_what_is_said_before_it_is(tmp_path, capsys):
    data = put(tmp_path, CHAT.encode())
    (data / "more.jsonl").write_text(json.dumps(BATTLE))
    ingested(data, tmp_path / "store")
    both = "reading 1 file as human-preference, 1 file as openai-messages"
    assert capsys.readouterr().err.splitlines() == [f"{both}, recognized by their columns (--format overrides)"]
    ingested(data / "rows.jsonl", tmp_path / "other", format="openai-messages")
    assert capsys.readouterr().err.splitlines() == ["reading 1 file as openai-messages"]


@pytest.mark.parametrize("packing", ["gz", "zst"])
def test_votes_of_a_file_are_not_joined_with_those_of_a_packed_file_of_its_name(tmp_path, packing):
    data = tmp_path / "data"
    write(data, "votes.jsonl", BATTLE | {"question_id": "new-00001"})
    write(data, f"votes.jsonl.{packing}", BATTLE | {"question_id": "old-00001"})
    store = ingested(data, tmp_path / "store")
    assert store.read("battles").select("conversation_a", "conversation_b").rows() == [("new-00001", "new-00001-b")]
    parts = store.parts("sightings")
    assert ingested(data, tmp_path / "store").parts("sightings") == parts


@pytest.mark.parametrize(("ending", "packed"), [("gz", gzip.compress), ("zst", zstandard.ZstdCompressor().compress)])
def test_an_array_of_which_each_line_was_packed_alone_is_an_array(tmp_path, ending, packed):
    rows = [json.loads(CHAT) | {"id": f"row-{number:08d}"} for number in range(3)]
    lines = ["[\n", "\n", *(f"{json.dumps(row)},\n" for row in rows[:-1]), f"{json.dumps(rows[-1])}]\n"]
    store = ingested(
        put(tmp_path, b"".join(packed(line.encode()) for line in lines), f"rows.json.{ending}"), tmp_path / "s"
    )
    assert rejected(store) == {}
    assert store.height("conversations") == 3


def test_files_of_rows_that_are_not_read_are_told(tmp_path, capsys):
    data = put(tmp_path, CHAT.encode())
    for name in ("B.JSONL", "rows.jsonl.gz", "c.jsonl.bz2", "d.jsonl.1", "e.tsv", "a.png", "dataset_info.json"):
        (data / name).write_bytes(CHAT.encode())
    ingested(data, tmp_path / "store")
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(";")[0] for line in told[1:]] == ["5 files not read: 'B.JSONL', 'c.jsonl.bz2', 'd.jsonl.1'"]


@pytest.mark.parametrize("name", ["rows.parquet", "votes.jsonl", "deeper/chats.csv", "rows.arrow.zst"])
def test_a_data_set_beside_arena_logs_is_told(tmp_path, capsys, name):
    logs = tmp_path / "logs"
    (logs / "serve_images").mkdir(parents=True)
    (logs / name).parent.mkdir(exist_ok=True)
    beside = ("2024-06-20-conv.json", "2024-06-19-conv.json.1", "gradio_web_server.log", "serve_images/a.json", name)
    for path in beside:
        (logs / path).write_bytes(b"{}\n")
    ingested(logs, tmp_path / "store")
    told = [line for line in capsys.readouterr().err.splitlines() if "not read" in line]
    assert told == [f"1 file not read: {name!r}; the folder holds arena logs; read a data set in a run of its own"]


def test_a_file_with_a_byte_order_mark_is_known_and_keeps_its_first_row(tmp_path):
    data = put(tmp_path, b"\xef\xbb\xbf" + CHAT.encode() + b"\n")
    store = ingested(data, tmp_path / "store")
    assert (store.read("conversations").height, rejected(store)) == (1, {})


def test_a_file_that_begins_with_broken_lines_is_known_by_its_first_row(tmp_path):
    data = put(tmp_path, b"\n{broken\n[1]\n" + CHAT.encode() + b"\n")
    store = ingested(data, tmp_path / "store")
    reasons = ["blank_line", "not_json", "not_a_record"]
    assert rejected(store) == {("rows.jsonl", number): reason for number, reason in enumerate(reasons, 1)}
    assert store.read("conversations")["line"].to_list() == [4]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("rows.json", b"[[1, 2]]", "columns: none; JSON holds an object a line, or an array of objects"),
        ("train.parquet", b"PAR1 and no more", r"'train.parquet' cannot be read \(ArrowInvalid\)"),
        ("data.arrow", b"no table", r"'data.arrow' cannot be read"),
    ],
)
def test_a_file_that_holds_no_rows_is_one_clear_line(tmp_path, name, content, says):
    with pytest.raises(BadInput, match=says):
        source_files(put(tmp_path, content, name))


def test_an_image_among_the_parts_of_a_text_dataset_is_missing_and_not_forgotten(tmp_path):
    asked = {"role": "user", "content": [{"type": "text", "text": "Who?"}, {"type": "image", "image": "a.png"}]}
    row = BATTLE | {f"conversation_{side}": [asked, BATTLE["conversation_a"][1]] for side in "ab"}
    store = ingested(put(tmp_path, json.dumps(row).encode()), tmp_path / "store")
    rows = store.read("conversations").to_dicts()
    assert [(texts(each), each["image_problems"]) for each in rows] == [(["Who?", "A cat."], ["image_missing"])] * 2


DOCS = Path(__file__).parents[3] / "docs" / "extending.md"
BROUGHT = [
    {"session": "s" * 12, "bot": "x", "question": "What is this?", "answer": "A cat."},
    {"session": "t" * 12, "bot": "y", "question": "And this?", "answer": "A dog."},
    {"session": "u" * 12, "bot": "y", "question": 3, "answer": "A dog."},
]


def example() -> str:
    """The adapter that the docs show."""
    _, _, section = DOCS.read_text(encoding="utf-8").partition("\n## A format\n")
    return re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a distribution with one entry point of our group."""

    def install(package: str, code: str, point: str) -> None:
        folder = tmp_path / package
        info = folder / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / f"{package}.py").write_text(code)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[arena_curation.formats]\n{point}\n")
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, package, raising=False)

    return install


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in BROUGHT))
    return folder


@pytest.mark.parametrize("chosen", [None, "support-desk"])
def test_the_example_of_the_docs_is_recognized_and_read(installed, data, tmp_path, capsys, chosen):
    installed("support_desk", example(), "support-desk = support_desk:ADAPTER")
    store = ingested(data, tmp_path / "store", format=chosen)
    assert [texts(row)[1] for row in store.read("conversations").to_dicts()] == ["A cat.", "A dog."]
    assert rejected(store) == {("rows.jsonl", 3): "bad_messages"}
    assert "reading 1 file as support-desk" in capsys.readouterr().err


def test_the_format_of_a_package_is_listed_and_reads_csv(installed, data, curate, tmp_path):
    installed("support_desk", example(), "support-desk = support_desk:ADAPTER")
    installed("raises", "raise RuntimeError('no licence')", "other = raises:ADAPTER")
    status, out, _ = curate("ingest", "--format", "list")
    assert status == 0
    assert re.search("^support-desk +of another package ", out, re.MULTILINE)
    assert re.search("^other +format 'other' of package 'raises' cannot be loaded", out, re.MULTILINE)
    (data / "rows.jsonl").unlink()
    (data / "rows.csv").write_text('session,bot,question,answer\nssssssssssss,x,"Say ""tide"",\nplease",Tide.\n')
    store = ingested(data, tmp_path / "store", format="support-desk")
    assert texts(store.read("conversations").to_dicts()[0]) == ['Say "tide",\nplease', "Tide."]


BROKEN = {
    "raises": ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
    "lacks_it": ("", "AttributeError"),
    "is_none": ("ADAPTER = 3", "is a int, not a FormatAdapter"),
}


@pytest.mark.parametrize("package", BROKEN)
def test_a_package_that_cannot_be_loaded_is_one_clear_line_that_names_it(installed, data, refused, tmp_path, package):
    code, said = BROKEN[package]
    installed(package, code, f"other = {package}:ADAPTER")
    for given in ((), ("--format", "other")):
        err = refused("ingest", "--logs", data, "--store", tmp_path / "store", *given)
        assert f"format 'other' of package '{package}' cannot be loaded" in err and said in err


def test_packages_are_not_loaded_for_formats_that_are_built_in(installed, data, tmp_path):
    installed("raises", "raise RuntimeError", "other = raises:ADAPTER")
    write(tmp_path / "logs", DAY, chat("a"))
    assert ingested(tmp_path / "logs", tmp_path / "store").read("conversations").height == 1
    assert adapter("lmsys-chat").name == "lmsys-chat"
