"""Text from logs and file names is printed without control characters, in every script."""

import json

from tests.small_store import HOSTILE_MODEL, small_store
from tests.tasks.runtime.test_untrusted import CONTROL


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
