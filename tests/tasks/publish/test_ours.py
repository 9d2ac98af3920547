"""Nobody's dataset is published over; a repository that is empty, or was this dataset's, takes a release."""

import json

import pytest

from schemas.errors import BadInput
from tasks.publish.hub import hub_api
from tasks.publish.yank import yank_version
from tests.hub_repo import Repo
from tests.tasks.publish.conftest import REPO

OTHERS_MANIFEST = json.dumps({"version": 3, "files": []}).encode()


def holds(hub, files: dict[str, bytes]) -> None:
    hub.repos[REPO] = Repo(private=True)
    hub.repos[REPO].commit({".gitattributes": b"*.parquet filter=lfs\n"} | files)


SOMEBODYS = [
    ({"README.md": b"ours", "data/train-00000-of-00001.parquet": b"theirs"}, "'data/train-00000-of-00001.parquet'"),
    ({"chat.jsonl": b"{}"}, r"another dataset already \('chat.jsonl' and no manifest.json of a release\)"),
    ({"README.md": b"---\nlicense: mit\n---\n", "images.zip": b"PK"}, "'images.zip'"),
    ({"chat.csv": b"a\n", "manifest.json": OTHERS_MANIFEST}, "'chat.csv'"),
    ({"manifest.json": OTHERS_MANIFEST}, "'manifest.json'"),
    ({"manifest.json": b"[" * 100_000}, "'manifest.json'"),
    ({"arena.py": b"import datasets"}, "'arena.py'"),
    ({"README.md": b"---\nlicense: mit\n---\n# Ours\n"}, "has a README.md that somebody wrote"),
    ({"README.md": b"coming soon"}, "has a README.md that somebody wrote and no release; delete it there"),
]
"""Files of somebody's repository, and what is said of it."""


@pytest.mark.parametrize(("files", "told", "preview"), [(*each, False) for each in SOMEBODYS] + [(*SOMEBODYS[0], True)])
def test_a_repository_with_somebodys_dataset_is_left_alone(hub, publish, files, told, preview):
    holds(hub, files)
    with pytest.raises(BadInput, match=told) as error:
        publish(preview=preview)
    assert "\n" not in str(error.value)
    assert hub.writes() == []


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"README.md": b""},
        {"README.md": b"---\nlicense: mit\n---\n"},
        {"README.md": b"---\r\nlicense: mit\r\n---"},
        {"README.md": b"---\n---\n\n"},
        {"LICENSE": b"ours", ".gitignore": b"*.tmp"},
    ],
)
def test_a_repository_with_what_the_hub_itself_puts_there_takes_a_release(hub, publish, files):
    holds(hub, files)
    publish()
    assert "manifest.json" in hub.files(REPO, "1.0.0")


def test_a_repository_that_held_a_release_takes_the_next_one_whatever_lies_beside_it(hub, publish, release):
    publish()
    hub.repos[REPO].commit({**hub.files(REPO), "notes/how.txt": b"ours"}, message="by hand")
    publish(release.parent / "1.1.0")
    for version in ("1.1.0", "1.0.0"):
        yank_version(hub_api(), REPO, version)
    assert hub.files(REPO).keys() == {".gitattributes", "README.md", "notes/how.txt"}
    publish(release.parent / "1.1.0")
    assert hub.repos[REPO].tags.keys() == {"1.1.0"}
    assert hub.files(REPO)["notes/how.txt"] == b"ours"
