"""`curate demo` with what it cannot do, and its models in an arena."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from flows.arena.serving import served
from tasks.arena.settings import ArenaSettings
from tasks.ingest.image_files import find_presets, preset_files
from tests.arena_client import Visitor
from tests.waiting import free_port, wait_until


@pytest.mark.parametrize("line", ["planted", "[]", '{"kinds": "face"}', "\udcff"])
def test_planted_facts_that_are_none_are_one_clear_line(refused, tmp_path, line):
    (tmp_path / "tables").mkdir()
    (tmp_path / "expected.jsonl").write_bytes(b'{"kind": "face"}\n' + line.encode(errors="surrogateescape"))
    err = refused("demo", "--check", "--out", tmp_path)
    assert all(word in err for word in ("expected.jsonl", "line 2", "kind"))


@pytest.mark.parametrize(
    ("option", "given", "words"),
    [("--store", "s", ["--store 's'", "add --check"]), ("--out", "/sys/arena", ["'/sys/arena", "give another path"])],
)
def test_places_that_cannot_be_are_one_clear_line(refused, option, given, words):
    err = refused("demo", option, given)
    assert all(word in err for word in words), err


def test_votes_on_the_demos_own_pictures_count(tmp_path):
    _, _, examples = served(True, None, ArenaSettings(logs=str(tmp_path / "logs")))
    assert len(list(preset_files(Path(examples)))) > 10
    assert find_presets(tmp_path / "logs") is None, "the curation would drop every battle on them as preset_battle"


def test_a_space_of_its_models_serves_battles_by_itself_and_logs_where_it_is_told(curate, tmp_path):
    code, out, err = curate("arena", "--space", tmp_path / "space", "--demo", "--set", 'title=An "arena"')
    assert code == 0 and "hf upload" in out, err
    folder, logs, port = tmp_path / "space", tmp_path / "logs", free_port()
    place = {"ARENA_LOGS": str(logs), "ARENA_HOST": "127.0.0.1", "ARENA_PORT": str(port)}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | place
    process = subprocess.Popen([sys.executable, "app.py"], cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: httpx.get(f"{url}/health").status_code == 200, process)
        assert "An &#34;arena&#34;" in httpx.get(url, timeout=None).text
        visitor = Visitor(url)
        visitor.say("How many cups are there?")
        assert visitor.vote().startswith("You voted")
    finally:
        process.terminate()
        process.wait()
    assert any("leftvote" in file.read_text() for file in logs.glob("vision-tmp-*-conv.json"))
