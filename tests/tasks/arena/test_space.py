"""A Space of an arena is one folder that starts by itself, and has no key."""

import os
import subprocess
import sys

import httpx
import pytest

from tests.arena_client import Visitor
from tests.served_arena import models_file
from tests.waiting import free_port, wait_until


@pytest.fixture
def space(curate, tmp_path):
    """A function that runs `curate arena --space`."""
    return lambda *options: curate("arena", "--space", tmp_path / "space", *options)


def test_the_folder_serves_battles_by_itself_and_logs_where_it_is_told(space, tmp_path):
    code, out, err = space("--demo", "--set", 'title=An "arena"')
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


def test_models_and_terms_are_copied_without_keys_and_versions_are_pinned(space, tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_KEY", "a secret of the lab")
    file = models_file(tmp_path / "mine.yaml", 8000, ("one", "two"))
    file.write_text(file.read_text().replace('"vision": true', '"vision": true, "key": "LAB_KEY"'))
    (tmp_path / "terms.md").write_text("Be kind.")
    code, out, err = space("--models", file, "--terms", tmp_path / "terms.md", "--provider", "moderation=openai")
    assert code == 0, err
    assert "warning: a Space does not reach this machine, where these models are: one, two" in out
    folder = tmp_path / "space"
    assert "sdk: docker" in (folder / "README.md").read_text() and (folder / "Dockerfile").is_file()
    unmounted = {name: value for name, value in os.environ.items() if name != "ARENA_LOGS"}
    refused = subprocess.run([sys.executable, "app.py"], cwd=folder, env=unmounted, capture_output=True, text=True)
    assert refused.returncode == 1 and refused.stderr.startswith("/data is no storage that was mounted"), refused.stderr
    written = {each: each.read_bytes() for each in folder.rglob("*") if each.is_file() and each.suffix != ".png"}
    assert not any(b"a secret of the lab" in content for content in written.values())
    options = written[folder / "app.py"].decode()
    assert (
        '"--models", "models.yaml", "--terms", "terms.md"' in options
        and '"--set", "providers.moderation=openai"' in options
    )
    needed = written[folder / "requirements.txt"].decode().splitlines()
    assert all("==" in line and "+" not in line for line in needed)
    names = {line.partition("==")[0] for line in needed}
    assert {"fastapi", "polars", "openai"} <= names and not {"arena-curation", "pytest", "ruff"} & names


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--demo", "--known-hashes", "list.txt"), "--known-hashes does not go with --space"),
        (("--demo", "--tasks", "tasks.yaml"), "--tasks does not go with --space"),
        (("--demo", "--set", "log_addresses=yes"), "--set log_addresses does not go with --space"),
        (("--demo", "--board", "releases/1"), "--board of a release does not go with --space"),
        (("--demo", "--policy", "mine.yaml"), "--policy with --space"),
        (("--models", "nowhere.yaml"), "models file"),
    ],
)
def test_what_a_space_cannot_do_is_one_line_and_nothing_is_written(space, tmp_path, options, told):
    code, out, err = space(*options)
    assert (code, out, err.count("\n")) == (2, "", 1) and told in err
    assert not (tmp_path / "space").exists()


def test_a_folder_with_something_in_it_is_left_alone(space, tmp_path):
    (tmp_path / "space").mkdir()
    (tmp_path / "space" / "mine.txt").write_text("mine")
    code, _, err = space("--demo")
    assert code == 2 and "is not empty" in err and len(list((tmp_path / "space").iterdir())) == 1
