"""What must not leave the building does not; stand-ins go only when each is accepted by name, on record."""

import shlex
from pathlib import Path

import pytest

from flows.products import parts_of_release
from flows.publish import publish
from schemas.errors import BadInput, ReleaseConflict
from schemas.policy import Policy, policy_hash
from schemas.publication import UploadPlan
from schemas.release import Manifest
from tasks.policy.policy_file import load_policy
from tasks.providers.embedded_figures import NO_FIGURE, stated
from tasks.publish.hub import hub_api
from tasks.publish.plan import plan_upload, with_site
from tasks.publish.push import check_hub, publish_release
from tasks.publish.records import of_version, record_commits
from tasks.publish.steps import describe_release, push_release
from tasks.release.build import CITATION, CROISSANT, DATA, WITHDRAWN
from tasks.release.citation import citation
from tasks.release.croissant import croissant
from tasks.storage.tables import Store
from tests.builders import NOON
from tests.small_store import make_release, manifest_of
from tests.tampered_release import as_production, reseal, stood_in_by, write_manifest
from tests.tasks.publish.conftest import REPO


def test_a_build_with_embedded_stand_ins_is_refused(hub, release):
    write_manifest(release, embedded_providers=["nsfw"])
    for options in [(False, False, False), (True, False, False), (False, True, False), (False, False, True)]:
        with pytest.raises(BadInput, match=r"embedded stand-ins \(nsfw\) and cannot be published"):
            plan_upload(release, REPO, parts_of_release, *options)
    assert hub.requests == []


def test_a_release_that_does_not_verify_is_refused(hub, release):
    with (release / "chat/data/train-00000-of-00001.parquet").open("ab") as stream:
        stream.write(b"x")
    with pytest.raises(BadInput, match="does not verify"):
        plan_upload(release, REPO, parts_of_release, False, False, False)


@pytest.mark.parametrize(
    "repo", ["", "arena", "org/", "/arena", "a/b/c", "org/a b", "org/-a", "org/" + "x" * 100, "o\n/a"]
)
def test_a_name_that_is_no_repository_is_refused(release, repo):
    with pytest.raises(BadInput, match=r"^repo: give ORG/NAME"):
        plan_upload(release, repo, parts_of_release, False, False, False)


@pytest.mark.parametrize("version", ["main", "preview-1.0.0", "1..0", "1.0.", "1.0.lock"])
def test_a_version_that_no_tag_can_be_is_refused(hub, release, version):
    write_manifest(release, version=version)
    with pytest.raises(BadInput, match="cannot be a tag on the Hub"):
        plan_upload(release, REPO, parts_of_release, False, False, False)


@pytest.mark.parametrize("token", ["hf_one two", "hf_one\ntwo", "hf_ä"])
def test_a_token_with_letters_that_no_token_has_is_one_clear_line(hub, publish, monkeypatch, token):
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(BadInput, match="HF_TOKEN holds a space or a letter that no token has") as error:
        publish()
    assert token not in str(error.value)
    assert hub.requests == []


def test_offline_is_said_at_once_and_not_waited_for(hub, publish, waited, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(BadInput, match="HF_HUB_OFFLINE is set"):
        publish()
    assert waited == hub.requests == []


def _under(release, **changes):
    """Write card and manifest as a policy with these changes would have left them."""
    manifest = manifest_of(release)
    policy = manifest["policy"] | changes
    name = policy_hash(Policy.model_validate(policy))
    card = release / "README.md"
    card.write_text(card.read_text(encoding="utf-8").replace(manifest["policy_hash"], name), encoding="utf-8")
    write_manifest(release, policy=policy, policy_hash=name)
    changed = Manifest.model_validate(manifest_of(release))
    for file, text in ((CROISSANT, croissant(changed)), (CITATION, citation(changed))):
        (release / file).write_text(text, encoding="utf-8")
    reseal(release)


def test_a_release_under_a_policy_that_is_not_for_everybody_is_published_privately_only(hub, release):
    _under(release, publishable=False)
    with pytest.raises(BadInput, match="policy 'public_release', which is not for everybody"):
        plan_upload(release, REPO, parts_of_release, True, False, False)
    assert not plan_upload(release, REPO, parts_of_release, False, False, False).public


@pytest.mark.parametrize(
    ("name", "publishable"), [("public_release", 1), ("redact", 1), ("internal", 0), ("upstream", 0)]
)
def test_the_presets_say_whether_they_are_for_everybody(name, publishable):
    assert load_policy(name).publishable == bool(publishable)


def test_a_policy_that_does_not_say_is_not_for_everybody():
    assert not Policy(name="mine", rules=[]).publishable


def test_an_export_or_a_manifest_that_names_banned_users_is_refused(hub, release):
    _under(release, banned_users=["f" * 24])
    with pytest.raises(BadInput, match="names the users"):
        plan_upload(release, REPO, parts_of_release, False, False, False)
    (release / "manifest.json").unlink()
    for folder in (release, release / "chat"):
        with pytest.raises(BadInput, match=r"it is an export or a part of a release; .* --private"):
            plan_upload(folder, REPO, parts_of_release, False, False, False)


PAGE = "explorer/index.html"


def with_pages(plan: UploadPlan, folder: Path) -> UploadPlan:
    """The plan with one page of an explorer, which lies in the folder."""
    (folder / PAGE).parent.mkdir()
    (folder / PAGE).write_text("a page")
    return with_site(plan, folder)


def withdraw(store: Store) -> None:
    """Mark the release as withdrawn, as a takedown does first."""
    store.write_bytes(f"releases/1.0.0/{WITHDRAWN}", b"{}")


SHARD = "chat/data/train-00000-of-00001.parquet"


@pytest.mark.parametrize("name", [SHARD, "README.md", "manifest.json"])
def test_a_file_that_changed_after_the_approval_is_not_published(hub, release, name):
    plan = plan_upload(release, REPO, parts_of_release, False, False, False)
    with (release / name).open("ab") as stream:
        stream.write(b" ")
    with pytest.raises(ReleaseConflict, match="changed after the release was approved"):
        publish_release(hub_api(), release, plan, None, NOON)
    assert hub.repos == {}


def test_a_manifest_that_changes_while_the_release_is_verified_is_not_planned(hub, release):
    def and_edit(opened):
        _under(release, about="edited")
        return parts_of_release(opened)

    with pytest.raises(ReleaseConflict, match="changed while it was verified"):
        plan_upload(release, REPO, and_edit, False, False, False)
    assert hub.requests == []


def test_another_release_under_the_approved_name_is_not_published(hub, release):
    approved = plan_upload(release, REPO, parts_of_release, False, False, False).manifest_sha256[:12]
    _under(release, about="edited")
    with pytest.raises(ReleaseConflict, match=f"'{approved}' was approved"):
        push_release.fn(str(release), REPO, False, False, False, approved, parts_of_release)
    assert hub.requests == []


def test_a_release_that_is_taken_down_while_it_is_sent_gets_no_tag(hub, release, waited):
    plan = plan_upload(release, REPO, parts_of_release, False, False, False)
    hub.meanwhile("POST", "/repos/create", (release / SHARD).unlink)
    with pytest.raises(ReleaseConflict, match=r"train-00000-of-00001\.parquet"):
        publish_release(hub_api(), release, plan, None, NOON)
    assert (hub.repos[REPO].tags, waited) == ({}, [])


def test_a_file_that_changes_while_it_is_sent_gets_no_tag(hub, release):
    plan = plan_upload(release, REPO, parts_of_release, False, False, False)
    hub.meanwhile("POST", "/repos/create", lambda: (release / "README.md").write_text("other words"))
    with pytest.raises(ReleaseConflict, match=r"README\.md changed"):
        publish_release(hub_api(), release, plan, None, NOON)
    assert hub.repos[REPO].tags == {}


def test_a_release_without_rows_is_refused_where_each_configuration_has_a_repository(store):
    store.replace("decisions", store.read("decisions").with_columns(keep=False))
    make_release(store, release="0.0.1")
    release = Path(store.root) / "releases" / "0.0.1"
    as_production(release)
    with pytest.raises(BadInput, match="has no rows"):
        plan_upload(release, REPO, parts_of_release, False, True, False)


def test_a_page_of_the_explorer_that_changed_after_the_approval_is_not_sent(hub, release, tmp_path):
    plan = with_pages(plan_upload(release, REPO, parts_of_release, False, False, False), tmp_path)
    (tmp_path / PAGE).write_text("other words")
    with pytest.raises(ReleaseConflict, match=f"{PAGE} changed after the release was approved"):
        publish_release(hub_api(), release, plan, None, NOON, tmp_path)
    assert hub.repos == {}


def test_a_page_of_the_explorer_that_changes_while_it_is_sent_gets_no_tag(hub, release, tmp_path):
    plan = with_pages(plan_upload(release, REPO, parts_of_release, False, False, False), tmp_path)
    hub.meanwhile("POST", "/repos/create", lambda: (tmp_path / PAGE).write_text("other words"))
    with pytest.raises(ReleaseConflict, match=f"{PAGE} changed"):
        publish_release(hub_api(), release, plan, None, NOON, tmp_path)
    assert hub.repos[REPO].tags == {}


TAG_REQUEST, TREE = ("POST", f"/api/datasets/{REPO}/tag/"), ("GET", f"/api/datasets/{REPO}/tree/")


@pytest.mark.parametrize("request_", [TREE, TAG_REQUEST])
def test_a_release_that_is_withdrawn_while_it_is_compared_or_tagged_is_told_with_the_command(
    hub, release, store, request_
):
    plan = plan_upload(release, REPO, parts_of_release, False, False, False)
    hub.meanwhile("POST", "/commit/", lambda: hub.meanwhile(*request_, lambda: withdraw(store)))
    with pytest.raises(ReleaseConflict, match=rf"withdrawn while .* `curate yank 1\.0\.0 --repo {REPO}`"):
        publish_release(hub_api(), release, plan, store, NOON)
    assert hub.repos[REPO].tags.keys() == ({"1.0.0"} if request_ == TAG_REQUEST else set())


def test_a_release_that_was_withdrawn_since_the_interruption_is_not_told_to_be_published(hub, release, store):
    plan = plan_upload(release, REPO, parts_of_release, False, False, False)
    commits = publish_release(hub_api(), release, plan, store, NOON)
    record_commits(store, plan, dict.fromkeys(commits, ""), NOON)  # as a run that ended after the tag leaves it
    withdraw(store)
    with pytest.raises(ReleaseConflict, match=rf"`curate yank 1\.0\.0 --repo {REPO}`"):
        publish_release(hub_api(), release, plan, store, NOON)


def test_a_file_that_is_gone_when_a_published_version_is_compared_is_one_line(hub, publish, release):
    publish()
    plan = plan_upload(release, REPO, parts_of_release, False, False, False)
    hub.meanwhile("GET", f"/api/datasets/{REPO}/tree/", (release / "README.md").unlink)
    with pytest.raises(ReleaseConflict, match=r"README\.md cannot be read any more"):
        check_hub(hub_api(), release, plan, None)


FACES, NSFW = ("--accept-embedded", "faces"), ("--accept-embedded", "nsfw")


@pytest.fixture
def stood_in(release):
    """A release whose faces and NSFW were measured by stand-ins."""
    stood_in_by(release, ["faces", "nsfw"])
    return release


@pytest.mark.parametrize("given", [(), FACES, NSFW])
def test_a_stand_in_that_is_not_named_forbids_publishing(hub, curate, stood_in, given):
    code, _, err = curate("publish", stood_in, "--repo", REPO, *given, "--yes")
    assert (code, hub.requests, err.count("\n")) == (2, [], 1)
    left = [name for name in ("faces", "nsfw") if name not in given]
    assert f"embedded stand-ins ({', '.join(left)})" in err
    assert err.endswith(f"{' '.join(f'--accept-embedded {name}' for name in left)}\n")


@pytest.mark.parametrize("given", [(), FACES, NSFW])
@pytest.mark.parametrize("flags", [(), ("--preview",), ("--repo-per-config", "--public")])
def test_the_refusal_ends_with_the_command_that_accepts_and_it_can_be_pasted(hub, curate, stood_in, given, flags):
    _, _, err = curate("publish", stood_in, "--repo", REPO, *given, *flags, "--dry-run")
    command = shlex.split("curate " + err.rpartition(": curate ")[2])
    assert command[:5] == ["curate", "publish", str(stood_in), "--repo", REPO]
    assert set(flags) <= set(command) and "--dry-run" not in command
    code, said, err = curate(*command[1:], "--dry-run")
    assert (code, err) == (0, "") and "nothing was sent" in said


def test_a_name_that_is_no_stand_in_and_a_card_with_other_figures_are_refused(hub, curate, stood_in):
    wrong = ("--accept-embedded", "image_text")
    code, _, err = curate("publish", stood_in, "--repo", REPO, *FACES, *NSFW, *wrong, "--yes")
    assert (code, hub.requests) == (2, [])
    assert "--accept-embedded image_text: " in err and "it has faces, nsfw" in err
    shown = next(line.made_with for line in stated("faces") if line.what.startswith("recall")).partition(" ")[0]
    page = (stood_in / DATA).read_text("utf-8")
    (stood_in / DATA).write_text(page.replace(f"| {shown} [", f"| 0.999{shown[5:]} [", 1), "utf-8")
    reseal(stood_in, restate=False)
    code, _, err = curate("publish", stood_in, "--repo", REPO, *FACES, *NSFW, "--yes")
    assert (code, "DATA.md" in err) == (2, True)


def test_accepted_stand_ins_are_shown_first_and_then_on_record_in_store_and_commit(hub, curate, stood_in, store):
    _, out, _ = curate("publish", stood_in, "--repo", REPO, *FACES, *NSFW)
    told = [(name, line) for name in ("faces", "nsfw") for line in stated(name)]
    for name, line in told:
        columns = "" if line.unseen == NO_FIGURE else f"; made with its material {line.made_with}; unseen {line.unseen}"
        assert f"accepted: embedded {name}: {line.what}{columns}\n" in out
    assert hub.writes() == []
    assert curate("publish", stood_in, "--repo", REPO, *FACES, *NSFW, "--yes")[0] == 0
    (row,) = of_version(store, "1.0.0")
    assert (row.accepted_embedded, row.public, hub.repos[REPO].private) == (["faces", "nsfw"], False, True)
    assert hub.repos[REPO].descriptions[row.commit] == "Accepted embedded stand-ins: faces, nsfw"
    page = hub.files(REPO, "1.0.0")[DATA].decode()
    assert all(f"\n| {name} | {line.what} | {line.made_with} | {line.unseen} |\n" in page for name, line in told)


def test_a_deployment_accepts_them_by_its_parameter(hub, stood_in):
    options = (str(stood_in), REPO, False, False, False)
    with pytest.raises(BadInput, match="embedded stand-ins"):
        describe_release.fn(*options, parts_of_release)
    text = describe_release.fn(*options, parts_of_release, ["faces", "nsfw"])
    assert text.count("accepted: embedded ") == sum(len(stated(name)) for name in ("faces", "nsfw"))
    digits = text.partition("manifest ")[2][:12]
    commits = push_release.fn(*options, digits, parts_of_release, ["faces", "nsfw"])
    assert hub.repos[REPO].tags["1.0.0"] == commits[REPO]
    assert "accept_embedded" in publish.parameters.properties
