"""A version that is taken back is gone from head, history and later versions, whatever was done by hand meanwhile."""

import json

import pytest

from schemas.errors import HubError
from tasks.publish.hub import hub_api
from tasks.publish.push import yank_version
from tests.places import contents
from tests.tasks.publish.conftest import REPO

MANIFEST, SHARD = "manifest.json", "chat/data/train-00000-of-00001.parquet"
BY_HAND = {
    "saved again": {MANIFEST: lambda content: json.dumps(json.loads(content), indent=1).encode()},
    "broken": {MANIFEST: lambda content: content[:100]},
    "deleted": {MANIFEST: lambda content: None},
    "saved again with a shard": {
        MANIFEST: lambda content: content.replace(b"\n", b"\r\n"), SHARD: lambda content: content + b" ",
    },
}  # fmt: skip


def edited(hub, changes) -> None:
    """Commit changes of files by hand: path -> function of its content, which gives None to delete it."""
    repo = hub.repos[REPO]
    files = hub.files(REPO) | {path: change(hub.files(REPO)[path]) for path, change in changes.items()}
    repo.commit({path: content for path, content in files.items() if content is not None}, message="by hand")


def reached(hub) -> set[str]:
    """Commits that a branch or tag has, or has in its past."""
    repo = hub.repos[REPO]
    return {commit for ref in [*repo.tags.values(), *repo.branches.values()] for commit in repo.past(ref)}


@pytest.mark.parametrize("how", BY_HAND)
def test_a_version_whose_manifest_was_changed_by_hand_goes_from_the_head(hub, publish, how):
    publish()
    edited(hub, BY_HAND[how])
    assert yank_version(hub_api(), REPO, "1.0.0")["files removed from the head"] > 20
    assert hub.files(REPO).keys() == {".gitattributes", "README.md"}
    assert (hub.repos[REPO].tags, hub.blobs) == ({}, {})


@pytest.mark.parametrize("how", ["saved again", "saved again with a shard"])
def test_an_earlier_version_goes_and_a_later_one_that_was_changed_by_hand_stays(hub, publish, release, how):
    publish()
    publish(release.parent / "1.1.0", hours=1)
    edited(hub, BY_HAND[how])
    before = hub.files(REPO)
    assert yank_version(hub_api(), REPO, "1.0.0")["files removed from the head"] == 0
    assert hub.files(REPO) == before


def test_no_later_version_or_preview_has_the_commit_in_its_past(hub, publish, release):
    first = publish()[REPO]
    publish(release.parent / "1.1.0", hours=1)
    publish(release.parent / "1.1.0", preview=True, hours=2)
    before = {revision: hub.files(REPO, revision) for revision in ("1.1.0", "preview-1.1.0", "main")}
    assert first in reached(hub)
    assert yank_version(hub_api(), REPO, "1.0.0")["versions and previews with a new commit"] == 2
    assert first not in reached(hub)
    assert {revision: hub.files(REPO, revision) for revision in before} == before
    assert hub.repos[REPO].branches.keys() == {"main", "preview-1.1.0"}
    assert hub.repos[REPO].tags.keys() == {"1.1.0"}


REQUESTS = [
    (("POST", "/branch/moving-"), False), (("POST", "/super-squash/main"), True),
    (("POST", "/super-squash/moving-"), False), (("POST", "/super-squash/moving-"), True),
    (("DELETE", "/tag/1.1.0"), False), (("DELETE", "/tag/1.1.0"), True), (("POST", "/tag/"), False),
    (("DELETE", "/branch/moving-"), False), (("DELETE", "/branch/moving-"), True), (("DELETE", "/tag/1.0.0"), False),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "after"), REQUESTS)
def test_interrupted_while_later_versions_move_none_of_them_is_lost(hub, publish, release, request_, after):
    first = publish()[REPO]
    publish(release.parent / "1.1.0", hours=1)
    hub.fail(*request_, 403, after=after)
    with pytest.raises(HubError, match="403"):
        yank_version(hub_api(), REPO, "1.0.0")
    yank_version(hub_api(), REPO, "1.0.0")
    assert first not in reached(hub)
    assert (hub.repos[REPO].tags.keys(), hub.repos[REPO].branches.keys()) == ({"1.1.0"}, {"main"})
    assert contents(release.parent / "1.1.0").items() <= hub.files(REPO, "1.1.0").items()


def test_a_version_of_which_the_tag_was_just_moving_can_be_taken_back_itself(hub, publish, release):
    publish()
    publish(release.parent / "1.1.0", hours=1)
    hub.fail("POST", "/tag/", 403)
    with pytest.raises(HubError, match="403"):
        yank_version(hub_api(), REPO, "1.0.0")
    for version in ("1.1.0", "1.0.0"):
        yank_version(hub_api(), REPO, version)
    assert (hub.repos[REPO].tags, hub.repos[REPO].branches.keys(), hub.blobs) == ({}, {"main"}, {})


def test_a_version_without_a_tag_at_the_head_is_still_known_after_an_earlier_one_went(hub, publish, release):
    publish()
    publish(release.parent / "1.1.0", hours=1)
    del hub.repos[REPO].tags["1.1.0"]
    for version in ("1.0.0", "1.1.0"):
        yank_version(hub_api(), REPO, version)
    assert hub.files(REPO).keys() == {".gitattributes", "README.md"}
    assert hub.blobs == {}


def test_a_branch_of_others_with_files_of_it_is_named(hub, publish, capsys):
    publish()
    hub.repos[REPO].branches["dev"] = hub.repos[REPO].branches["main"]
    yank_version(hub_api(), REPO, "1.0.0")
    assert f"branch dev of {REPO} still has files of it; delete that branch on the Hub" in capsys.readouterr().err
    assert hub.repos[REPO].branches.keys() == {"main", "dev"}
