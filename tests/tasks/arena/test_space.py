"""A Space of an arena is one folder that has no key; what it cannot do is one line."""

import os
import subprocess
import sys

import pytest

from tasks.arena.starters import read_starters
from tests.built_arena import image_file
from tests.served_arena import models_file


@pytest.fixture
def space(curate, tmp_path):
    """A function that runs `curate arena --space`."""
    return lambda *options: curate("arena", "--space", tmp_path / "space", *options)


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
        (("--demo", "--set", "starters=nowhere.yaml"), "starters file"),
    ],
)
def test_what_a_space_cannot_do_is_one_line_and_nothing_is_written(space, tmp_path, options, told):
    code, out, err = space(*options)
    assert (code, out, err.count("\n")) == (2, "", 1) and told in err
    assert not (tmp_path / "space").exists()


def test_reasons_and_starter_prompts_come_along_with_their_pictures(space, tmp_path):
    (tmp_path / "mine.yaml").write_text("better: {kind: {en: Kinder}}")
    prompts = "[{text: What is it?, picture: own.png}, {text: And this?, picture: coffee.png}]"
    (tmp_path / "starters.yaml").write_text(f"categories: [{{title: {{en: Look}}, prompts: {{en: {prompts}}}}}]")
    (tmp_path / "own.png").write_bytes(image_file())
    own = ("--set", f"reasons={tmp_path / 'mine.yaml'}", "--set", f"starters={tmp_path / 'starters.yaml'}")
    code, _, err = space("--demo", *own)
    assert code == 0, err
    folder = tmp_path / "space"
    assert '"reasons=reasons.yaml"' in (folder / "app.py").read_text()
    copied = read_starters(folder / "starters" / "starters.yaml")
    assert {name: file.parent for name, file in copied.pictures.items()} == dict.fromkeys(
        ("own.png", "coffee.png"), folder / "starters"
    )


def test_a_folder_with_something_in_it_is_left_alone(space, tmp_path):
    (tmp_path / "space").mkdir()
    (tmp_path / "space" / "mine.txt").write_text("mine")
    code, _, err = space("--demo")
    assert code == 2 and "is not empty" in err and len(list((tmp_path / "space").iterdir())) == 1
