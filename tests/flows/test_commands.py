"""The command line: one clear line and exit 2 for bad input, stable output for scripts."""

import json
from importlib.metadata import version
from pathlib import Path

import polars as pl
import pytest

from tasks.shown import item_key
from tasks.storage.tables import Store
from tests.small_store import HOSTILE_MODEL, make_release, small_store
from tests.tasks.runtime.test_untrusted import CONTROL
from tests.voted_store import MODELS, voted


def _one_line(code: int, err: str, *words: str) -> bool:
    return code == 2 and err.count("\n") == 1 and err.startswith("curate: ") and all(word in err for word in words)


def test_inspect_prints_one_object_a_text(curate, tmp_path):
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "mail me at ana@example.org please"}\nnot json\n')
    code, out, _ = curate("inspect", texts, "--json")
    good, bad = map(json.loads, out.splitlines())
    assert code == 0
    assert good["signals"]["text_pii"]["spans"][0] == {"type": "email", "start": 11, "end": 26, "confidence": 1.0}
    assert good["signals"]["language"]["language"] == "en"
    assert bad["signals"]["text_pii"] == {"error": "no_text"}


def test_inspect_prints_every_image_signal_and_explain_names_reason_and_signals(curate, curated):
    image = next((curated.arena / "logs" / "serve_images").glob("*.jpg"))
    code, out, _ = curate("inspect", image, "--json")
    signals = json.loads(out)["signals"]
    assert code == 0
    assert 0 <= signals["nsfw"]["nsfw_probability"] <= 1
    assert len(signals["image_hash"]["phash"]) == 16 and len(signals["image_hash"]["pdq"]) == 64
    assert isinstance(signals["faces"]["faces"], list)
    dropped = curated.store.read("decisions").filter(item_kind="conversation", keep=False).row(0, named=True)
    code, out, _ = curate("explain", dropped["item_id"], "--store", curated.settings.store, "--json")
    account = json.loads(out)
    assert code == 0
    assert account["decision"]["reasons"] == dropped["reasons"]
    assert account["messages"][0]["signals"]["text_pii"]["types"] is not None
    address = item_key("conversation", dropped["item_id"])  # as in the address of its page in the explorer
    assert curate("explain", address, "--store", curated.settings.store, "--json")[1] == out


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    made = small_store(tmp_path_factory.mktemp("small"))
    make_release(made, release="1.0.0")
    return made


def test_version_is_that_of_the_package(curate):
    assert curate("--version") == (0, f"curate {version('arena-curation')}\n", "")


def test_topics_show_lists_the_largest_topic_first(curate, store):
    code, out, _ = curate("topics", "show", "--store", store.root, "--json")
    topics = [json.loads(line) for line in out.splitlines()]
    assert (code, {topic["topic"] for topic in topics}) == (0, {-1, 0, 1})
    assert sum(topic["prompts"] for topic in topics) == store.read("topics").height
    assert [topic["prompts"] for topic in topics] == sorted((topic["prompts"] for topic in topics), reverse=True)
    words = curate("topics", "show", "--store", store.root, "--first", "1")[1]
    assert "picture, thing" in words and "2 more; all with --first 3" in words


def test_slices_of_a_store_are_printed_and_nothing_is_stored(curate, store):
    before = store.read("ratings")
    code, out, _ = curate("rate", "--store", store.root, "--slice", "all", "--json")
    boards = {json.loads(line)["slice"] for line in out.splitlines()}
    assert (code, "overall" in boards, len(boards) > 1) == (0, True, True)
    assert store.read("ratings").equals(before)


def test_changes_of_the_hidden_split_are_printed_as_json_alone(prefect_server, curate, tmp_path):
    code, out, err = curate("bench", "refresh", "--store", small_store(tmp_path).root, "--json")
    assert (code, [json.loads(line)["table"] for line in out.splitlines()]) == (0, [])
    assert "\nrecord   " in err


def test_an_export_says_which_rows_it_left_out(curate, store, tmp_path):
    release = Path(store.root) / "releases" / "1.0.0"
    code, out, _ = curate("export", "dataset", release, "--out", tmp_path / "export")
    counts = json.loads((release / "manifest.json").read_text())["counts"]
    exported, _, left_out = out.partition("left out, without an image: ")
    for name in ("chat", "battle", "bench"):
        given = [int(part.split()[-1]) for text in (exported, left_out) for part in text.split(", ") if name in part]
        assert sum(given) == counts[name]
    assert code == 0


def test_an_account_of_a_hostile_model_name_is_the_same_json_without_direction_characters(curate, tmp_path):
    store = small_store(tmp_path)
    rows = store.read("conversations", ["conversation_id", "model"]).filter(model=HOSTILE_MODEL)
    said = ("explain", rows["conversation_id"][0], "--store", store.root)
    words, out = curate(*said)[1], curate(*said, "--json")[1]
    assert json.loads(out)["model"] == HOSTILE_MODEL
    assert "(<script src=" in words
    assert not CONTROL.search((words + out).replace("\n", ""))


def test_a_hostile_file_name_is_inspected_under_its_name_and_turns_nothing_round(curate, tmp_path):
    file = tmp_path / "\u202egpj\x1b[2J漢.jsonl"
    file.write_text('{"text": "What is it?"}\n', encoding="utf-8")
    code, out, _ = curate("inspect", file, "--json")
    assert (code, json.loads(out)["item"].startswith(str(file))) == (0, True)
    assert "漢" in out
    words = curate("inspect", file)[1]
    assert not CONTROL.search((out + words).replace("\n", ""))


def test_the_stand_in_votes_and_is_held_against_people(prefect_server, curate, refused, tmp_path):
    store = voted(tmp_path)
    assert "has no votes of a judge; ask for some with --sample N" in refused("judge", "votes", "--store", store.root)
    code, out, err = curate("judge", "votes", "--store", store.root, "--sample", 9)
    assert (code, out.count("\n")) == (2, 1)  # the path of the record; the images have no text
    assert f"gave a verdict on any of {len(MODELS)} battles" in err
    rows = store.read("judge_votes").with_columns(label=pl.lit("tie"))
    store.replace("judge_votes", rows)
    code, out, err = curate("judge", "votes", "--store", store.root, "--json")
    (row,) = map(json.loads, out.splitlines())
    assert (row["a"], row["b"], row["items"]) == ("people", "embedded stand-in", len(MODELS))
