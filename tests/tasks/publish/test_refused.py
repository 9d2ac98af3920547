"""What must not leave the building does not, before the Hub is asked anything."""

import pytest

from flows.products import parts_of_release
from schemas.errors import BadInput, ReleaseConflict
from schemas.policy import Policy, policy_hash
from tasks.policy.policy_file import load_policy
from tasks.publish.hub import hub_api
from tasks.publish.plan import plan_upload
from tasks.publish.push import Push, publish_release
from tasks.publish.steps import push_release
from tests.builders import NOON
from tests.small_store import manifest_of
from tests.tampered_release import reseal, write_manifest
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


def test_an_export_is_refused_with_what_to_do_instead(hub, release):
    (release / "manifest.json").unlink()
    for folder in (release, release / "chat"):
        with pytest.raises(BadInput, match=r"it is an export or a part of a release; .* --private"):
            plan_upload(folder, REPO, parts_of_release, False, False, False)


def test_a_manifest_that_names_banned_users_is_refused(hub, release):
    _under(release, banned_users=["f" * 24])
    with pytest.raises(BadInput, match="names the users"):
        plan_upload(release, REPO, parts_of_release, False, False, False)


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


def test_a_release_that_is_taken_down_while_it_is_sent_is_one_line_and_gets_no_tag(hub, release, monkeypatch, waited):
    plan, sent = plan_upload(release, REPO, parts_of_release, False, False, False), Push._commit

    def and_withdraw(push):
        (release / SHARD).unlink(missing_ok=True)
        return sent(push)

    monkeypatch.setattr(Push, "_commit", and_withdraw)
    with pytest.raises(ReleaseConflict, match=r"train-00000-of-00001\.parquet"):
        publish_release(hub_api(), release, plan, None, NOON)
    assert (hub.repos[REPO].tags, waited) == ({}, [])


def test_a_file_that_changes_while_it_is_sent_gets_no_tag(hub, release, monkeypatch):
    plan, sent = plan_upload(release, REPO, parts_of_release, False, False, False), Push._commit

    def and_edit(push):
        (release / "README.md").write_text("other words")
        return sent(push)

    monkeypatch.setattr(Push, "_commit", and_edit)
    with pytest.raises(ReleaseConflict, match=r"README\.md changed"):
        publish_release(hub_api(), release, plan, None, NOON)
    assert hub.repos[REPO].tags == {}
