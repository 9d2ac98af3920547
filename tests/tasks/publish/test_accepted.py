"""Embedded stand-ins are published only when each is accepted by name, and that is on record."""

import pytest

from flows.products import parts_of_release
from flows.publish import publish
from schemas.errors import BadInput
from tasks.providers import EMBEDDED_RECALL
from tasks.publish.records import of_version
from tasks.publish.steps import describe_release, push_release
from tests.tampered_release import card_says, write_manifest
from tests.tasks.publish.conftest import REPO

FACES, NSFW = ("--accept-embedded", "faces"), ("--accept-embedded", "nsfw")


@pytest.fixture
def release(release):
    """A release whose faces and NSFW were measured by stand-ins."""
    names = ["faces", "nsfw"]
    recall = {name: EMBEDDED_RECALL[name] for name in names}
    write_manifest(release, embedded_providers=names, embedded_recall=recall)
    notice = [
        f"> **Built with embedded stand-ins** ({', '.join(names)}).",
        *(f"> * {n}: {f}" for n, f in recall.items()),
    ]
    card_says(release, "Version 1.0.0 of", "\n".join([*notice, "", "Version 1.0.0 of"]))
    return release


@pytest.mark.parametrize("given", [(), FACES, NSFW])
def test_a_stand_in_that_is_not_named_forbids_publishing(hub, curate, release, given):
    code, _, err = curate("publish", release, "--repo", REPO, *given, "--yes")
    assert (code, hub.requests, err.count("\n")) == (2, [], 1)
    left = [name for name in ("faces", "nsfw") if name not in given]
    assert f"embedded stand-ins ({', '.join(left)})" in err
    assert err.endswith(f"{' '.join(f'--accept-embedded {name}' for name in left)}\n")


def test_a_name_that_is_no_stand_in_of_the_release_is_refused(hub, curate, release):
    wrong = ("--accept-embedded", "image_text")
    code, _, err = curate("publish", release, "--repo", REPO, *FACES, *NSFW, *wrong, "--yes")
    assert (code, hub.requests) == (2, [])
    assert "--accept-embedded image_text: " in err and "it has faces, nsfw" in err


def test_accepted_stand_ins_are_shown_first_and_then_on_record_in_store_and_commit(hub, curate, release, store):
    _, out, _ = curate("publish", release, "--repo", REPO, *FACES, *NSFW)
    assert all(f"accepted: embedded {name}: {EMBEDDED_RECALL[name]}\n" in out for name in ("faces", "nsfw"))
    assert hub.writes() == []
    assert curate("publish", release, "--repo", REPO, *FACES, *NSFW, "--yes")[0] == 0
    (row,) = of_version(store, "1.0.0")
    assert (row.accepted_embedded, row.public, hub.repos[REPO].private) == (["faces", "nsfw"], False, True)
    assert hub.repos[REPO].descriptions[row.commit] == "Accepted embedded stand-ins: faces, nsfw"
    assert f"> * faces: {EMBEDDED_RECALL['faces']}\n".encode() in hub.files(REPO, "1.0.0")["README.md"]


def test_a_deployment_accepts_them_by_its_parameter(hub, release):
    options = (str(release), REPO, False, False, False)
    with pytest.raises(BadInput, match="embedded stand-ins"):
        describe_release.fn(*options, parts_of_release)
    text = describe_release.fn(*options, parts_of_release, ["faces", "nsfw"])
    assert text.count("accepted: embedded ") == 2
    digits = text.partition("manifest ")[2][:12]
    commits = push_release.fn(*options, digits, parts_of_release, ["faces", "nsfw"])
    assert hub.repos[REPO].tags["1.0.0"] == commits[REPO]
    assert "accept_embedded" in publish.parameters.properties


def test_a_card_with_other_figures_than_the_manifest_is_not_published(hub, curate, release):
    card_says(release, "0.989", "0.999")
    code, _, err = curate("publish", release, "--repo", REPO, *FACES, *NSFW, "--yes")
    assert (code, "stand-ins it was built with is not what the manifest says" in err) == (2, True)
