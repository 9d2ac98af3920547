"""A difference between two releases names every row, column and rule that is not the same."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.errors import BadInput
from schemas.publication import Bump
from tasks.release import diff
from tasks.release.diff import diff_releases
from tasks.storage.queries.explain import removal_reasons
from tests.small_store import manifest_of
from tests.tampered_release import write_manifest


def _rewrite(release, config, change):
    (shard,) = (release / config / "data").glob("*.parquet")
    pq.write_table(change(pq.read_table(shard)), shard)


def _ids(release):
    (shard,) = (release / "chat" / "data").glob("*.parquet")
    return pq.read_table(shard, columns=["conversation_id"])["conversation_id"].to_pylist()


def _changes(old, new):
    changes = []
    diff_releases(old, new, tell=changes.append)
    return changes


def test_a_release_does_not_differ_from_itself(release):
    found = diff_releases(release, release)
    assert (found.rules, found.schema_changes, _changes(release, release), found.bump) == ([], [], [], Bump.NONE)
    assert found.rows["chat same"] == len(_ids(release))


def test_a_row_that_left_is_removed_one_way_and_added_the_other(release, own_release):
    gone = _ids(release)[2]
    _rewrite(own_release, "chat", lambda table: table.filter(pa.compute.not_equal(table["conversation_id"], gone)))
    (there,), (back,) = (_changes(*pair) for pair in ((release, own_release), (own_release, release)))
    assert (there.config, there.id, there.change) == ("chat", gone, "removed")
    assert (back.id, back.change) == (gone, "added")
    assert diff_releases(release, own_release).bump == Bump.MINOR


def test_a_changed_value_names_its_column_and_asks_for_a_patch(release, own_release):
    def rename(table):
        models = ["another", *table["model"].to_pylist()[1:]]
        return table.set_column(table.schema.get_field_index("model"), table.schema.field("model"), pa.array(models))

    _rewrite(own_release, "chat", rename)
    found, changes = diff_releases(release, own_release), _changes(release, own_release)
    assert [(row.id, row.change, row.columns) for row in changes] == [(_ids(release)[0], "changed", ["model"])]
    assert found.columns == {"chat": {"model": 1}, "battle": {}, "bench": {}, "failures": {}}
    assert found.bump == Bump.PATCH


def test_rows_are_told_by_id_however_few_are_compared_at_once(release, own_release, monkeypatch):
    _rewrite(own_release, "chat", lambda table: table.slice(5).take(list(reversed(range(table.num_rows - 5)))))
    _rewrite(
        own_release, "battle", lambda table: table.drop_columns(["judge"]).append_column("judge", table["model_a"])
    )
    whole, found = _changes(release, own_release), diff_releases(release, own_release)
    monkeypatch.setattr(diff, "_BATCH_ROWS", 3)
    assert _changes(release, own_release) == whole
    assert diff_releases(release, own_release) == found
    assert {(row.config, row.change) for row in whole} == {("chat", "removed"), ("battle", "changed")}
    assert [row.id for row in whole if row.config == "chat"] == sorted(_ids(release)[:5])


def test_a_column_that_left_breaks_readers_and_one_that_came_does_not(release, own_release):
    _rewrite(own_release, "bench", lambda table: table.drop_columns(["topic"]))
    less, more = diff_releases(release, own_release), diff_releases(own_release, release)
    assert (less.schema_changes, less.bump) == (["bench.topic: left"], Bump.MAJOR)
    assert (more.schema_changes, more.bump) == (["bench.topic: came"], Bump.MINOR)


def test_another_rule_and_seed_are_named(release, own_release):
    manifest = own_release / "manifest.json"
    text = manifest.read_text()
    assert '"seed": 0' in text and '"nsfw_image"' in text
    manifest.write_text(text.replace('"seed": 0', '"seed": 7').replace('"nsfw_image"', '"naked"'))
    rules = diff_releases(release, own_release).rules
    assert "settings.seed: 0 became 7" in rules
    words = "nudity or sex with probability 0.8 or more in an image"
    assert f"policy no longer drops: nsfw_image: {words}" in rules
    assert f"policy now drops: naked: {words}" in rules


@pytest.mark.parametrize(
    ("version", "last_day", "suggested"),
    [
        ("1.2.3", "2030-01-01", "1.3.0"),
        ("2024-09-17", "2030-01-01", "2030-01-01"),
        ("2024-09-18", "2024-09-18", "2024-09-18.1"),
        ("2024.07.17", "2024-07-26", "2024.07.26"),
        ("2024.07.17.3", "2024-07-26", "2024.07.26"),
        ("2024.07.26", "2024-07-26", "2024.07.26.1"),
        ("2024.07.26.1", "2024-07-26", "2024.07.26.2"),
        ("2024.7.17", "2024-07-26", "2024.8.0"),
        ("v9", "2030-01-01", "v10"),
        ("first", "2030-01-01", "first-2"),
    ],
)
def test_the_suggested_version_comes_after_the_old_one(release, own_release, version, last_day, suggested):
    write_manifest(own_release, last_day=last_day)
    _rewrite(own_release, "chat", lambda table: table.slice(1))
    older = own_release.with_name("older")
    shutil.copytree(release, older)
    write_manifest(older, version=version)
    assert diff_releases(older, own_release).next_version == suggested


def test_every_other_part_of_the_policy_and_the_days_are_named_too(release, own_release):
    policy = manifest_of(own_release)["policy"]
    policy["duplicates"]["prompt_cosine_min"] = 0.5
    rename = {"model": "a", "to": "b", "since": None, "until": None}
    write_manifest(own_release, policy=policy | {"renames": [rename]}, last_day="2030-01-01")
    rules = diff_releases(release, own_release).rules
    assert "policy.duplicates.prompt_cosine_min: 0.9 became 0.5" in rules
    assert f"policy.renames: [] became {[rename]}" in rules
    assert any(rule.startswith("last_day: ") and rule.endswith(" became 2030-01-01") for rule in rules)


@pytest.mark.parametrize("content", [None, b"PAR1"])
def test_a_shard_that_is_missing_or_broken_is_one_clear_error(release, own_release, content):
    (shard,) = (own_release / "bench" / "data").glob("*.parquet")
    shard.unlink() if content is None else shard.write_bytes(content)
    with pytest.raises(BadInput, match="bench cannot be read; `curate verify` says"):
        diff_releases(release, own_release)


def test_a_row_that_left_says_what_drops_it(store):
    why = removal_reasons(store)
    assert why("chat", ["d0", "c00", "never seen"]) == {
        "d0": ["face"],
        "c00": ["its prompt is in the benchmark"],
        "never seen": ["not in the store"],
    }


def test_a_folder_without_manifest_is_no_release(release, tmp_path):
    shutil.copytree(release / "chat", tmp_path / "chat")
    with pytest.raises(BadInput, match="not a release"):
        diff_releases(release, tmp_path)
