"""`curate publish` and `curate yank` from the command line: what is on the Hub, and what is gone from it afterwards."""

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from schemas.errors import HubError
from tasks.publish.hub import hub_api
from tasks.publish.push import yank_version
from tasks.publish.records import of_version
from tasks.takedown.take_down import take_down
from tests.builders import NOON
from tests.hub_repo import Repo
from tests.places import contents
from tests.tampered_release import stood_in_by
from tests.tasks.publish.conftest import REPO, reader


@pytest.mark.parametrize("layout", [(), ("--repo-per-config",)])
def test_a_dry_run_asks_the_hub_nothing_and_lists_what_then_goes_to_every_repository(
    hub, curate, release, layout, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.delenv("HF_TOKEN")
        code, out, _ = curate("publish", release, "--repo", REPO, *layout, "--dry-run")
    assert (code, hub.requests) == (0, [])
    blocks = re.split(r"^(?=org/)", out, flags=re.MULTILINE)[1:]
    listed = {block.partition(" ")[0]: set(re.findall(r"^  (\S+)$", block, re.MULTILINE)) for block in blocks}
    assert curate("publish", release, "--repo", REPO, *layout, "--yes")[0] == 0
    assert listed == {name: {*hub.files(name)} - {".gitattributes"} for name in hub.repos}


def test_a_dry_run_lists_what_must_not_go_and_says_why(hub, curate, release):
    stood_in_by(release, ["nsfw"], measured=False)
    code, out, err = curate("publish", release, "--repo", REPO, "--dry-run")
    assert (code, hub.requests) == (2, [])
    assert "  chat/data/train-00000-of-00001.parquet\n" in out
    assert "was built with embedded stand-ins (nsfw) and cannot be published" in err


def test_without_anybody_to_ask_the_funnel_and_the_difference_are_shown_and_nothing_goes(hub, curate, release):
    assert curate("publish", release, "--repo", REPO, "--yes")[0] == 0
    sent = hub.writes()
    code, out, err = curate("publish", release.parent / "1.1.0", "--repo", REPO)
    assert (code, hub.writes()) == (2, sent)
    assert "then say --yes" in err
    assert "dropped 1 face" in out
    assert "since version 1.0.0:" in out
    assert "chat removed 1" in out


@pytest.mark.parametrize("answer", ["y", "n"])
def test_somebody_at_a_terminal_decides(hub, curate, release, answering, answer):
    answering(answer)
    code, _, _ = curate("publish", release, "--repo", REPO)
    assert (code, REPO in hub.repos) == ((0, True) if answer == "y" else (1, False))


def test_nobody_is_asked_about_what_the_hub_would_refuse(hub, curate, release, answering):
    answering("y")
    hub.repos[REPO] = Repo(private=False)
    hub.repos[REPO].commit({})
    code, out, err = curate("publish", release, "--repo", REPO)
    assert (code, "publish this?" in out, "say --public" in err) == (2, False, True)


def test_nobody_is_asked_about_taking_back_what_is_not_there(hub, curate, refused, release, store, answering):
    answering("y")
    curate("publish", release, "--repo", REPO, "--yes")
    err = refused("yank", "9.9", "--repo", REPO, "--store", store.root)
    assert err == f"curate: {REPO} has no version '9.9'; it has 1.0.0\n"


def test_a_version_that_went_by_other_hands_is_taken_back_in_the_stores_record(hub, curate, release, store):
    curate("publish", release, "--repo", REPO, "--yes")
    hub.repos[REPO].tags.clear()
    hub.repos[REPO].commit({}, message="everything goes", first=True)
    code, out, _ = curate("yank", "1.0.0", "--repo", REPO, "--store", store.root)
    assert (code, of_version(store, "1.0.0")) == (0, [])
    assert "the store's record says so now" in out
    assert curate("yank", "1.0.0", "--repo", REPO, "--store", store.root)[0] == 2


def test_the_command_that_takes_it_back_is_printed_and_works(hub, curate, release, store):
    _, out, _ = curate("publish", release, "--repo", REPO, "--yes")
    printed = shlex.split(
        next(line for line in out.splitlines() if "to take it back: " in line).partition("curate ")[2]
    )
    assert curate(*printed, "--yes")[0] == 0
    assert (hub.repos[REPO].tags, of_version(store, "1.0.0")) == ({}, [])


def test_a_missing_token_is_told_before_the_release_is_verified(hub, curate, release, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    (release / "README.md").unlink()
    code, _, err = curate("publish", release, "--repo", REPO, "--yes")
    assert (code, "HF_TOKEN is not set" in err) == (2, True)


def test_a_version_downloaded_from_the_hub_verifies(hub, curate, release, tmp_path):
    curate("publish", release, "--repo", REPO, "--yes")
    folder = tmp_path / "downloaded"
    download = [Path(sys.executable).with_name("hf"), "download", REPO, "--repo-type", "dataset", "--revision", "1.0.0"]
    done = reader(hub, tmp_path, *download, "--local-dir", folder)
    assert done.returncode == 0, done.stderr
    assert (folder / ".gitattributes").exists() and (folder / ".cache/huggingface").exists()
    assert curate("verify", folder)[0] == 0
    (folder / ".cache" / "hidden.parquet").write_bytes(b"")
    assert curate("verify", folder)[0] == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("publish", "nowhere", "--repo", REPO, "--yes"), "is not a release"),
        (("publish", "RELEASE", "--repo", "arena", "--yes"), "give ORG/NAME"),
        (("yank", "1.0.0", "--repo", "org/nothing", "--yes"), "no such repository"),
        (("yank", "1.0.0", "--repo", "org/a b", "--yes"), "give ORG/NAME"),
        (("yank", "1.0.0", "--repo", "../../etc", "--yes"), "give ORG/NAME"),
    ],
)
def test_bad_input_is_one_clear_line(hub, refused, release, arguments, told):
    assert told in refused(*[str(release) if each == "RELEASE" else each for each in arguments])


def test_a_copy_of_a_release_outside_a_store_can_be_published_too(hub, curate, release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "copy"))
    assert curate("publish", copy, "--repo", REPO, "--yes")[0] == 0
    assert hub.repos[REPO].tags.keys() == {"1.0.0"}


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
    sent = hub.files(REPO).keys()
    assert (hub.repos[REPO].tags, "manifest.json" in sent) == ({}, True)
    assert yank()["files removed from the head"] == len(sent - {".gitattributes", "README.md"}) > 20
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
    assert yank("preview-1.0.0") == {
        "files removed from the head": 0, "large files deleted": 0, "versions and previews with a new commit": 0,
    }  # fmt: skip
    assert hub.repos[REPO].branches == {"main": head}
    assert hub.repos[REPO].tags == {"1.0.0": head}
    assert contents(release).items() <= hub.files(REPO).items()
