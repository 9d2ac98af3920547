"""`curate publish` and `curate yank` from the command line, and `datasets` reading what they left on the Hub."""

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.publish.records import of_version
from tests.hub_server import TOKEN
from tests.small_store import manifest_of
from tests.tasks.publish.conftest import REPO

READ_BACK = f"""
import datasets
for name in ("chat", "battle", "bench"):
    rows = datasets.load_dataset("{REPO}", name, revision="1.0.0", split="train")
    for row in rows:
        for image in row["images"]:
            image.load()
    print(name, rows.num_rows)
first = next(iter(datasets.load_dataset("{REPO}", "chat", revision="1.0.0", split="train", streaming=True)))
print(first["conversation_id"])
"""


def test_what_was_published_is_read_back_by_datasets(hub, curate, release, tmp_path):
    code, out, err = curate("publish", release, "--repo", REPO, "--yes")
    assert code == 0, err
    assert f"published {REPO} at 1.0.0, commit {hub.repos[REPO].tags['1.0.0']}" in out
    kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    own = {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "hf"), "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1"}
    done = subprocess.run([sys.executable, "-c", READ_BACK], env=kept | own, capture_output=True, text=True)
    counts = manifest_of(release)["counts"]
    read = [word for name in ("chat", "battle", "bench") for word in (name, str(counts[name]))]
    assert done.stdout.split()[:6] == read, done.stderr
    assert len(done.stdout.split()) == 7


def test_a_dry_run_lists_every_file_and_asks_the_hub_nothing(hub, curate, release, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    code, out, _ = curate("publish", release, "--repo", REPO, "--dry-run")
    assert (code, hub.requests) == (0, [])
    files = [path.relative_to(release).as_posix() for path in release.rglob("*") if path.is_file()]
    assert [line.strip() for line in out.splitlines() if line.startswith("  ")] == sorted(files)
    size = sum(path.stat().st_size for path in release.rglob("*") if path.is_file())
    assert f"{REPO} (private), one commit on main, tag 1.0.0: {len(files)} files, {size:,} bytes" in out


@pytest.mark.parametrize("layout", [(), ("--repo-per-config",)])
def test_a_dry_run_lists_what_then_goes_to_every_repository(hub, curate, release, layout):
    _, out, _ = curate("publish", release, "--repo", REPO, *layout, "--dry-run")
    blocks = re.split(r"^(?=org/)", out, flags=re.MULTILINE)[1:]
    listed = {block.partition(" ")[0]: set(re.findall(r"^  (\S+)$", block, re.MULTILINE)) for block in blocks}
    assert curate("publish", release, "--repo", REPO, *layout, "--yes")[0] == 0
    assert listed == {name: {*hub.files(name)} - {".gitattributes"} for name in hub.repos}


def test_without_anybody_to_ask_the_funnel_and_the_difference_are_shown_and_nothing_goes(hub, curate, release):
    assert curate("publish", release, "--repo", REPO, "--yes")[0] == 0
    sent = len(hub.requests)
    code, out, err = curate("publish", release.parent / "1.1.0", "--repo", REPO)
    assert (code, len(hub.requests)) == (2, sent)
    assert "then say --yes" in err
    assert "dropped 1 face" in out
    assert "since version 1.0.0:" in out
    assert "chat removed 1" in out


@pytest.mark.parametrize("answer", ["y", "n"])
def test_somebody_at_a_terminal_decides(hub, curate, release, monkeypatch, answer):
    terminal = io.StringIO(f"{answer}\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    code, _, _ = curate("publish", release, "--repo", REPO)
    assert (code, REPO in hub.repos) == ((0, True) if answer == "y" else (1, False))


def test_yank_takes_it_back_and_the_store_forgets_it(hub, curate, release, store):
    curate("publish", release, "--repo", REPO, "--yes")
    code, out, err = curate("yank", "1.0.0", "--repo", REPO, "--store", store.root, "--yes")
    assert (code, err) == (0, "")
    assert f"{REPO} has no version 1.0.0 any more" in out
    assert (hub.repos[REPO].tags, of_version(store, "1.0.0")) == ({}, [])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("publish", "nowhere", "--repo", REPO, "--yes"), "is not a release"),
        (("publish", "RELEASE", "--repo", "arena", "--yes"), "give ORG/NAME"),
        (("yank", "1.0.0", "--repo", "org/nothing", "--yes"), "no such repository"),
    ],
)
def test_bad_input_is_one_clear_line(hub, curate, release, arguments, told):
    code, out, err = curate(*[str(release) if each == "RELEASE" else each for each in arguments])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err


def test_a_copy_of_a_release_outside_a_store_can_be_published_too(hub, curate, release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "copy"))
    assert curate("publish", copy, "--repo", REPO, "--yes")[0] == 0
    assert hub.repos[REPO].tags.keys() == {"1.0.0"}
