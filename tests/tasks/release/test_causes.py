"""A difference says why values are other ones, as far as the manifests tell, and what the next version is called."""

import polars as pl
import pytest

from schemas.publication import Bump
from tasks.release.diff import diff_releases
from tasks.storage.queries.benches.bench import topics_fit
from tests.small_store import manifest_of
from tests.tampered_release import BATTLE, BENCH, CHAT, rewrite, write_manifest

REDACTS = {"reason": "pii", "signal": "text_pii.types", "over": "messages", "contains_any": [], "action": "redact"}
RENAME = {"model": "a", "to": "z", "since": None, "until": None}


def _changes(old, new):
    changes = []
    return diff_releases(old, new, tell=changes.append), changes


def _other_topics(rows):
    return [row | {"topic": f"{row['topic']} and more"} for row in rows]


def test_topics_of_a_new_fit_are_told_once_and_are_the_cause_of_every_other_topic(release, own_release):
    write_manifest(own_release, topics_fit="another fit")
    rewrite(own_release, CHAT, _other_topics)
    assert manifest_of(release)["topics_fit"] == "a fit"
    found, changes = _changes(release, own_release)
    assert [line for line in found.rules if line.startswith("topics were fitted anew: ")] == found.rules
    assert {(*row.columns, *row.why) for row in changes} == {("topic", "topics were fitted anew")}
    assert found.why["chat"] == {"topics were fitted anew": len(changes)}


def test_a_topic_with_another_name_after_the_same_fit_is_not_called_a_new_fit(release, own_release):
    rewrite(own_release, CHAT, _other_topics)
    found, changes = _changes(release, own_release)
    assert (found.rules, {tuple(row.why) for row in changes}) == ([], {()})


def test_a_release_that_does_not_say_which_fit_it_has_blames_none(release, own_release):
    write_manifest(own_release, topics_fit=None)
    rewrite(own_release, CHAT, _other_topics)
    assert diff_releases(release, own_release).rules == []


@pytest.mark.parametrize(
    ("shard", "column", "value", "manifest", "why"),
    [
        (CHAT, "language", "Danish", {"signal_versions": {"language": "9"}}, "language measured by another version"),
        (CHAT, "model", "z", {"policy": {"renames": [RENAME]}}, "the policy renames other models"),
        (BENCH, "turns", [], {"policy": {"rules": [REDACTS]}}, "the policy redacts something else"),
        (BATTLE, "in_bench", True, {"settings": {"bench": {"prompts": 3}}}, "the benchmark was drawn anew"),
        (BATTLE, "tstamp", 5.0, {"signal_versions": {"language": "9"}}, None),
    ],
)
def test_a_changed_value_names_what_the_manifests_say_of_it(release, own_release, shard, column, value, manifest, why):
    known = manifest_of(own_release)
    write_manifest(own_release, **{name: known[name] | part for name, part in manifest.items()})
    rewrite(own_release, shard, lambda rows: [row | {column: value} for row in rows])
    _, changes = _changes(release, own_release)
    assert {tuple(row.why) for row in changes} == {(why,) if why else ()}


@pytest.mark.parametrize(
    ("version", "change", "expected"),
    [
        ("1.2.3", lambda rows: rows[1:], (Bump.MINOR, "1.3.0")),
        ("1.2.3", _other_topics, (Bump.PATCH, "1.2.4")),
        ("1.2.3", lambda rows: rows, (Bump.NONE, None)),
        ("2024.09", _other_topics, (Bump.PATCH, "2024.10")),
    ],
)
def test_the_next_version_is_the_earlier_one_with_the_bump(release, own_release, tmp_path, version, change, expected):
    earlier = own_release.rename(tmp_path / "earlier")
    write_manifest(earlier, version=version)
    later = tmp_path / "later"
    later.mkdir()
    for path in release.iterdir():
        (later / path.name).symlink_to(path)
    rewrite(earlier, CHAT, change)
    found = diff_releases(earlier, later)
    assert (found.bump, found.next_version) == expected


def test_the_command_counts_rows_of_a_new_fit_and_lists_the_others(curate, release, own_release):
    write_manifest(own_release, topics_fit="another fit")
    rewrite(own_release, CHAT, lambda rows: [rows[0] | {"model": "z"}, *_other_topics(rows[1:])])
    code, out, _ = curate("diff", release, own_release)
    assert (code, out.count("topics were fitted anew")) == (0, 2)
    (listed,) = [line for line in out.splitlines() if line.startswith("  changed ") and '"' in line]
    assert listed.endswith("  model")
    assert f"… {len(pl.read_parquet(release / CHAT)) - 1} more; all with --json" in out


def test_the_fit_is_the_one_that_the_topics_are_of(store, own_store):
    assert topics_fit(store) == "a fit"
    fits = own_store.read("topic_model")
    older = fits.with_columns(model=pl.lit("an older fit"), topic=pl.lit(7, pl.Int32))
    own_store.replace("topic_model", pl.concat([older, fits]))
    assert topics_fit(own_store) == "a fit"
    own_store.replace("topic_model", older)
    assert topics_fit(own_store) is None
