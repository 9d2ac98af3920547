"""What must not leave the building does not, before the Hub is asked anything."""

import json

import pytest

from schemas.errors import BadInput
from tasks.publish.plan import plan_upload
from tests.small_store import manifest_of
from tests.tasks.publish.conftest import REPO


def test_a_build_with_embedded_stand_ins_is_refused(hub, release):
    (release / "manifest.json").write_text(json.dumps(manifest_of(release) | {"embedded_providers": ["nsfw"]}))
    for options in [(False, False, False), (True, False, False), (False, True, False), (False, False, True)]:
        with pytest.raises(BadInput, match=r"embedded stand-ins \(nsfw\) and cannot be published"):
            plan_upload(release, REPO, *options)
    assert hub.requests == []


def test_a_release_that_does_not_verify_is_refused(hub, release):
    with (release / "chat/data/train-00000-of-00001.parquet").open("ab") as stream:
        stream.write(b"x")
    with pytest.raises(BadInput, match="does not verify"):
        plan_upload(release, REPO, False, False, False)


@pytest.mark.parametrize(
    "repo", ["", "arena", "org/", "/arena", "a/b/c", "org/a b", "org/-a", "org/" + "x" * 100, "o\n/a"]
)
def test_a_name_that_is_no_repository_is_refused(release, repo):
    with pytest.raises(BadInput, match="--repo: give ORG/NAME"):
        plan_upload(release, repo, False, False, False)


def test_a_missing_token_is_one_clear_line(hub, publish, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(BadInput, match="HF_TOKEN is not set"):
        publish()
    assert hub.requests == []
