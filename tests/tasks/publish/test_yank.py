"""A version that is taken back is gone from tag, head and history; the others are as they were."""

import shutil

import pytest

from schemas.errors import HubError
from tasks.publish.hub import hub_api
from tasks.publish.yank import yank_version
from tasks.takedown.take_down import take_down
from tests.builders import NOON
from tests.places import contents
from tests.tasks.publish.conftest import REPO


def yank(revision="1.0.0"):
    return yank_version(hub_api(), REPO, revision)


def large(hub, revision):
    return {content for path, content in hub.files(REPO, revision).items() if path.endswith(".parquet")}


def test_the_only_version_leaves_a_note_and_nothing_else(hub, publish):
    publish()
    hub.repos[REPO].commit({**hub.files(REPO), "LICENSE": b"ours"}, message="by hand")
    yank()
    assert hub.files(REPO).keys() == {".gitattributes", "LICENSE", "README.md"}
    assert b"withdrawn" in hub.files(REPO)["README.md"]
    assert (hub.repos[REPO].tags, hub.blobs) == ({}, {})
    assert len(hub.repos[REPO].commits) < 4


def test_an_earlier_version_goes_and_the_later_one_stays_whole(hub, publish, release):
    publish()
    publish(release.parent / "1.1.0", hours=1)
    only_first = large(hub, "1.0.0") - large(hub, "1.1.0")
    assert only_first
    yank()
    assert contents(release.parent / "1.1.0").items() <= hub.files(REPO).items()
    assert contents(release.parent / "1.1.0").items() <= hub.files(REPO, "1.1.0").items()
    assert hub.repos[REPO].tags.keys() == {"1.1.0"}
    assert not only_first & set(hub.blobs.values())


def test_a_preview_is_taken_back_by_its_branch(hub, publish):
    publish(preview=True)
    yank("preview-1.0.0")
    assert hub.repos[REPO].branches.keys() == {"main"}
    assert hub.blobs == {}


@pytest.mark.parametrize("request_", [("POST", "/super-squash/"), ("POST", "/lfs-files/batch"), ("DELETE", "/tag/")])
def test_interrupted_it_is_completed_by_doing_it_again(hub, publish, request_):
    publish()
    hub.fail(*request_, 403)
    with pytest.raises(HubError, match="403"):
        yank()
    yank()
    assert (hub.repos[REPO].tags, hub.blobs) == ({}, {})


def test_a_takedown_lists_the_published_versions_that_hold_it(hub, publish, release, store, monkeypatch):
    monkeypatch.setenv("CURATE_USER_KEY", "the key of every store here")
    publish()
    publish(release.parent / "1.1.0", hours=1)
    assert take_down(store, ["c03"], [], NOON, dry_run=True).published == [(REPO, "1.0.0")]
    assert take_down(store, ["c03"], [], NOON, dry_run=False).published == [(REPO, "1.0.0")]
    assert take_down(store, ["c03"], [], NOON, dry_run=False).published == [(REPO, "1.0.0")]
    assert take_down(store, ["c05"], [], NOON, dry_run=True).published == [(REPO, "1.0.0"), (REPO, "1.1.0")]


def test_a_version_that_was_sent_and_got_no_tag_goes_as_well(hub, publish):
    hub.fail("POST", "/tag/", 403)
    with pytest.raises(HubError, match="403"):
        publish()
    assert (hub.repos[REPO].tags, "manifest.json" in hub.files(REPO)) == ({}, True)
    assert yank()["files removed from the head"] > 50
    assert hub.files(REPO).keys() == {".gitattributes", "README.md"}
    assert (hub.repos[REPO].tags, hub.blobs) == ({}, {})


def test_a_version_without_a_tag_below_a_later_one_leaves_the_history(hub, publish, release):
    publish()
    only_first = large(hub, "1.0.0")
    publish(release.parent / "1.1.0", hours=1)
    del hub.repos[REPO].tags["1.0.0"]
    yank()
    assert not (only_first - large(hub, "1.1.0")) & set(hub.blobs.values())
    assert contents(release.parent / "1.1.0").items() <= hub.files(REPO).items()
    assert hub.repos[REPO].tags.keys() == {"1.1.0"}


def test_a_takedown_lists_published_versions_of_which_it_cannot_tell(hub, curate, publish, release, store, monkeypatch):
    monkeypatch.setenv("CURATE_USER_KEY", "the key of every store here")
    publish()
    publish(release.parent / "1.1.0", hours=1)
    shutil.rmtree(release)
    removed = take_down(store, ["c05"], [], NOON, dry_run=True)
    assert (removed.published, removed.perhaps_published) == ([(REPO, "1.1.0")], [(REPO, "1.0.0")])
    out = curate("takedown", "--yes", "c05", "--store", store.root, "--dry-run")[1]
    assert f"check whether it has the content, or take it back with: curate yank 1.0.0 --repo {REPO}" in out


def test_a_preview_that_was_published_since_goes_and_the_version_stays_at_the_head(hub, publish, release):
    publish(preview=True)
    publish()
    head = hub.repos[REPO].branches["main"]
    assert yank("preview-1.0.0") == {"files removed from the head": 0, "large files deleted": 0}
    assert hub.repos[REPO].branches == {"main": head}
    assert hub.repos[REPO].tags == {"1.0.0": head}
    assert contents(release).items() <= hub.files(REPO).items()
