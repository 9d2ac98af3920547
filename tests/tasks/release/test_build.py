"""A release appears whole, under its version, and never changes afterwards; too many failures of a provider hold it."""

import hashlib
import json
import shutil
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.products import item_ids
from schemas.errors import BadInput, ReleaseConflict
from schemas.policy import policy_hash
from schemas.release import Manifest
from schemas.settings import Settings
from schemas.tables import SIGNALS
from tasks.prompts import replaced_prompts
from tasks.providers import MAKERS, OPTIONAL, PROVIDERS
from tasks.release.build import CITATION, CROISSANT, checked_version, place_release, released_files
from tasks.release.checks.failing import failing_lines, mostly_unmeasured
from tasks.release.steps import build_release
from tasks.storage.queries.released import mark_decided
from tasks.storage.tables import Store
from tasks.takedown.releases import mark_withdrawn
from tests.builders import VERSIONS
from tests.places import contents
from tests.small_store import POLICY, make_release, manifest_of, small_store


def _releases(store):
    return sorted(path.name for path in Path(store.at("releases")).iterdir())


def _drop(store, conversation_id):
    """Another decision, so that the next release has other content."""
    decisions = store.read("decisions")
    dropped = pl.col("item_id") == conversation_id
    store.replace("decisions", decisions.with_columns(keep=pl.col("keep") & ~dropped))


def test_the_same_content_again_exists_and_other_content_under_a_chosen_version_is_an_error(own_store):
    before = contents(Path(own_store.at("releases/first")))
    again = make_release(own_store, reported=True, release="first")
    assert (again.result, again.counts["new"]) == ("releases/first", 0)
    assert contents(Path(own_store.at("releases/first"))) == before
    assert _releases(own_store) == ["first"]
    before = contents(Path(own_store.at("releases/first")))
    _drop(own_store, "c03")
    with pytest.raises(ReleaseConflict, match="'first' exists with other content"):
        make_release(own_store, release="first")
    assert contents(Path(own_store.at("releases/first"))) == before


def test_the_manifest_names_prompts_that_took_the_place_of_ours_and_no_folder(own_store, tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/topic_name.md").write_text("Name `name`.")
    with replaced_prompts(str(tmp_path / "theirs")):
        made = Path(own_store.at(make_release(own_store, release="theirs").result))
    assert manifest_of(made)["prompts"] == {"topic_name": hashlib.sha256(b"Name `name`.").hexdigest()[:8]}
    assert not any(str(tmp_path).encode() in content for content in contents(made).values())


def test_what_changed_after_the_decisions_is_not_released_by_them(own_store):
    mark_decided(own_store)
    _, *rest = make_release(own_store).counts.items()  # as it was decided
    grown = own_store.read("conversations").with_columns(num_turns=pl.col("num_turns") + 1)
    own_store.replace("conversations", grown)
    before = _releases(own_store)
    with pytest.raises(BadInput, match="some were never screened; run `curate decide`"):
        make_release(own_store)
    assert _releases(own_store) == before
    mark_decided(own_store)
    assert rest and make_release(own_store).counts["new"]


@pytest.mark.parametrize(
    ("lost", "told"),
    [("decided_about", "some were never screened"), (policy_hash(POLICY), "lacks the policy that made its decisions")],
)
def test_decisions_without_their_policy_or_what_they_are_about_are_not_released(own_store, lost, told):
    own_store.fs.rm_file(own_store.at(f"policies/{lost}.json"))
    before = _releases(own_store)
    with pytest.raises(BadInput, match=f"{told}.*run `curate decide`") as raised:
        make_release(own_store)
    assert "\n" not in str(raised.value) and _releases(own_store) == before


def test_other_content_under_the_default_version_becomes_the_next_one(own_store):
    made = [make_release(own_store).result]
    for conversation_id in ("c03", "c04"):
        _drop(own_store, conversation_id)
        made.append(make_release(own_store).result)
    assert made == [f"releases/2024.09.23{suffix}" for suffix in ("", "-attempt2", "-attempt3")]
    folder = Path(own_store.at(made[1]))
    assert manifest_of(folder)["version"] == "2024.09.23-attempt2"
    assert "Version 2024.09.23-attempt2 of" in (folder / "README.md").read_text()
    assert json.loads((folder / CROISSANT).read_text())["version"] == "2024.09.23-attempt2"
    assert "version: 2024.09.23-attempt2" in (folder / CITATION).read_text()
    assert make_release(own_store).result == made[2]


def test_content_whose_release_was_removed_is_released_anew(own_store):
    """As when the rows of a day are again those of an earlier attempt, whose data retention has removed."""
    first = make_release(own_store).result
    mark_withdrawn(own_store, first.removeprefix("releases/"), "retention")
    report = make_release(own_store)
    assert (report.result, report.counts["new"]) == (f"{first}-attempt2", 1)
    with pytest.raises(ReleaseConflict, match=r"release '2024\.09\.23' was removed; .*choose another version"):
        make_release(own_store, release=first.removeprefix("releases/"))


def test_what_a_killed_copy_left_is_no_part_of_the_release(release, tmp_path):
    store = Store(f"memory://{tmp_path.name}/store")
    store.write_bytes("releases/first/chat/data/train-00001-of-00002.parquet", b"of a larger build")
    place_release(store, Path(shutil.copytree(release, tmp_path / "staging")), "first", chosen_by_user=True)
    folder = store.at("releases/first")
    there = {path.removeprefix(f"{folder}/"): store.fs.cat_file(path) for path in store.fs.find(folder)}
    assert there == contents(release)


def test_an_interrupted_build_leaves_no_release_and_nothing_of_it_in_the_next(own_store, release):
    interrupted = small_store(Path(own_store.root).parent / "other")
    staging = build_release.fn(Settings(store=interrupted.root), VERSIONS, item_ids(interrupted), ()).staging
    (staging / "chat" / "data" / "train-00001-of-00002.parquet").write_bytes(b"half a shard")
    assert _releases(interrupted) == [staging.name]
    assert staging.name.startswith(".")
    make_release(interrupted, reported=True, release="first")
    assert _releases(interrupted) == ["first"]
    assert contents(Path(interrupted.at("releases/first"))) == contents(release)


def test_a_killed_build_for_an_object_store_leaves_nothing_beside_the_next(own_store, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    remote = Store(f"memory://{tmp_path.name}/killed")
    remote.fs.put(f"{own_store.root}/", f"{remote.path}/", recursive=True)
    first, second = (
        build_release.fn(Settings(store=remote.root), VERSIONS, item_ids(remote), ()).staging for _ in range(2)
    )
    assert list(scratch.iterdir()) == [first] == [second]


def test_the_manifest_lists_every_other_file_and_everything_needed_to_make_it_again(release):
    manifest = Manifest.model_validate(manifest_of(release))
    assert manifest.files == released_files(release)
    assert set(contents(release)) == {*manifest.files, "manifest.json"}
    assert manifest.signal_versions.keys() == SIGNALS.keys()
    unchosen = {"image_moderation", "failure_types"}
    assert PROVIDERS.keys() - manifest.providers.keys() == unchosen | MAKERS
    assert manifest.embedded_providers == sorted(
        c
        for c, choices in PROVIDERS.items()
        if "embedded" in choices and len(choices) > 1 and c not in OPTIONAL | MAKERS
    )
    assert {*OPTIONAL} <= manifest.providers.keys()
    assert {"nsfw", "faces"} <= set(manifest.embedded_providers)
    assert manifest.policy == json.loads(POLICY.model_dump_json())
    assert manifest.settings.keys() >= {"seed", "topics", "bench", "bootstraps"}
    assert manifest.software
    assert manifest.layout == 12
    assert (manifest.first_day, manifest.last_day) == ("2024-09-18", "2024-09-23")


def test_no_path_of_this_machine_is_in_a_release(store, release):
    for name, content in contents(release).items():
        assert store.root.encode() not in content, name
        assert str(Path.home()).encode() + b"/" not in content, name


def test_a_store_without_decisions_is_one_clear_error(tmp_path):
    with pytest.raises(BadInput, match="holds no decisions to release"):
        build_release.fn(Settings(store=str(tmp_path)), VERSIONS, item_ids(Store(str(tmp_path))), ())


@pytest.mark.parametrize(
    "version", ["", ".", "..", "../x", "a/b", "-rf", ".hidden", "a b", "1\n", "ü", "x" * 41, "nul", "COM1.0", "1."]
)
def test_a_version_that_cannot_be_a_folder_name_is_refused(version):
    with pytest.raises(BadInput, match="release version"):
        checked_version(version)


@given(st.from_regex(r"[0-9_][A-Za-z0-9._-]{0,38}[A-Za-z0-9_-]", fullmatch=True))
def test_ordinary_versions_are_accepted_as_they_are(version):
    assert checked_version(version) == version


def test_users_whom_the_policy_bans_are_counted_and_not_named(own_store):
    banned = POLICY.model_copy(update={"banned_users": ["f" * 24, "e" * 24]})
    own_store.write_bytes(f"policies/{policy_hash(POLICY)}.json", banned.model_dump_json().encode())
    folder = Path(own_store.root) / make_release(own_store, release="1.0.0").result
    manifest = manifest_of(folder)
    assert (manifest["banned_users"], manifest["policy"]["banned_users"]) == (2, [])
    assert not any(b"ffffffff" in path.read_bytes() for path in folder.rglob("*") if path.is_file())


CHOSEN = {"categories": "openai"}


def run(asked: int, released: bool = False, stage: str = "measure_documents", **failed: int) -> dict:
    """The record of a run that asked for the categories of some items."""
    failures = {f"categories: {reason}": count for reason, count in failed.items()}
    stages = [{"stage": stage, "model_calls": {"categories": asked}, "failures": failures}]
    return {"funnel": {"lines": 1} if released else None, "stages": stages, "settings": {"providers": CHOSEN}}


def lines(*records: dict, share_max: float = 0.02) -> list[str]:
    return failing_lines(records, CHOSEN, share_max)


@pytest.mark.parametrize(("failed", "held"), [(2, False), (3, True)])
def test_a_larger_share_than_allowed_is_a_line(failed, held):
    assert bool(lines(run(100, timed_out=failed))) is held


def test_the_line_names_the_cause_first_and_leaves_out_items_over_the_budget():
    (line,) = lines(run(100, service_paused=60, connection_failed=20))
    assert line == "categories=openai failed for 80 of 100 items, 80.0% (connection_failed 20, service_paused 60)"
    assert lines(run(100, budget_reached=90)) == []
    (line,) = lines(run(100, budget_reached=90, connection_failed=10))
    assert "failed for 10 of 10 items" in line


def test_only_the_failures_since_the_last_release_that_no_second_try_mended_count():
    assert lines(run(100, timed_out=100), run(100)) == []
    assert lines(run(100), run(50, timed_out=50)) != []
    accepted = run(100, released=True, refused=2)
    assert lines(accepted, run(52, refused=2)) == []
    assert lines(accepted, run(52, refused=2, timed_out=20)) != []
    record = run(100, stage="take_in_images", timed_out=50)
    record["stages"] += run(50, stage="catch_up_images")["stages"]
    assert lines(record) == []


STRICT, REMOVED = ["pii_text", "nsfw_image"], ["unmeasured_conversation"]
NSFW, BOTH = ["unmeasured_nsfw"], ["pii_text", "unmeasured_nsfw", "unmeasured_text_pii"]


@pytest.mark.parametrize(
    ("reasons", "share_max", "line"),
    [
        ([NSFW] * 3, 0.02, "3 of 3 items are unmeasured by nsfw=opennsfw2"),
        ([BOTH, NSFW, []], 0.02, "2 of 3 items are unmeasured by nsfw=opennsfw2, text_pii"),
        ([BOTH, NSFW, [], []], 0.02, None),  # half is not most
        ([NSFW] * 3, 1.0, None),  # somebody said so
        ([NSFW, NSFW, []], 0.7, None),
        ([STRICT] * 3, 0.02, None),  # a policy that drops all makes an empty release
        ([REMOVED] * 3, 0.02, None),
        ([[]] * 3, 0.02, None),
        ([], 0.02, None),
    ],
)
def test_a_release_most_of_whose_items_are_unmeasured_has_a_line_whoever_measures(reasons, share_max, line):
    decisions = pl.DataFrame({"reasons": reasons}, schema={"reasons": pl.List(pl.String)})
    for slices in ([decisions], list(decisions.iter_slices(1))):
        assert mostly_unmeasured(slices, {"nsfw": "opennsfw2"}, share_max) == line
