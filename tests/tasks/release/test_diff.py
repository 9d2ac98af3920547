"""What `curate diff` says of two releases: rows, columns, causes, places on the map, and the next version."""

import random
import shutil

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.products import parts_of_release, problems_of
from schemas.errors import BadInput
from schemas.policy import policy_hash, released_policy
from schemas.publication import Bump
from tasks.release import diff
from tasks.release.core_parts import MAP, moved_points, wrong_places
from tasks.release.diff import diff_releases
from tasks.storage.queries.explain import removal_reasons
from tests.small_store import POLICY, manifest_of
from tests.tampered_release import BATTLE, BENCH, CHAT, rewrite, write_manifest


def _rewrite(release, config, change):
    (shard,) = (release / config / "data").glob("*.parquet")
    rows = change(pq.read_table(shard))
    pq.write_table(rows, shard)
    write_manifest(release, counts=manifest_of(release)["counts"] | {config: rows.num_rows})


def _ids(release):
    (shard,) = (release / "chat" / "data").glob("*.parquet")
    return pq.read_table(shard, columns=["conversation_id"])["conversation_id"].to_pylist()


def _changes(old, new):
    changes = []
    diff_releases(old, new, parts_of_release, tell=changes.append)
    return changes


def test_a_release_does_not_differ_from_itself(release):
    found = diff_releases(release, release, parts_of_release)
    assert (found.rules, found.schema_changes, _changes(release, release), found.bump) == ([], [], [], Bump.NONE)
    assert found.rows["chat same"] == len(_ids(release))


def test_a_row_that_left_is_removed_one_way_and_added_the_other(release, own_release):
    gone = _ids(release)[2]
    _rewrite(own_release, "chat", lambda table: table.filter(pa.compute.not_equal(table["conversation_id"], gone)))
    (there,), (back,) = (_changes(*pair) for pair in ((release, own_release), (own_release, release)))
    assert (there.config, there.id, there.change) == ("chat", gone, "removed")
    assert (back.id, back.change) == (gone, "added")
    assert diff_releases(release, own_release, parts_of_release).bump == Bump.MINOR


def test_a_changed_value_names_its_column_and_asks_for_a_patch(release, own_release):
    def rename(table):
        models = ["another", *table["model"].to_pylist()[1:]]
        return table.set_column(table.schema.get_field_index("model"), table.schema.field("model"), pa.array(models))

    _rewrite(own_release, "chat", rename)
    found, changes = diff_releases(release, own_release, parts_of_release), _changes(release, own_release)
    assert [(row.id, row.change, row.columns) for row in changes] == [(_ids(release)[0], "changed", ["model"])]
    assert found.columns == {"chat": {"model": 1}, "battle": {}, "bench": {}, "failures": {}}
    assert found.bump == Bump.PATCH


def test_rows_are_told_by_id_however_few_are_compared_at_once(release, own_release, monkeypatch):
    _rewrite(own_release, "chat", lambda table: table.slice(5).take(list(reversed(range(table.num_rows - 5)))))
    _rewrite(
        own_release, "battle", lambda table: table.drop_columns(["judge"]).append_column("judge", table["model_a"])
    )
    whole, found = _changes(release, own_release), diff_releases(release, own_release, parts_of_release)
    monkeypatch.setattr(diff, "_BATCH_ROWS", 3)
    assert _changes(release, own_release) == whole
    assert diff_releases(release, own_release, parts_of_release) == found
    assert {(row.config, row.change) for row in whole} == {("chat", "removed"), ("battle", "changed")}
    assert [row.id for row in whole if row.config == "chat"] == sorted(_ids(release)[:5])


def test_a_column_that_left_breaks_readers_and_one_that_came_does_not(release, own_release):
    _rewrite(own_release, "bench", lambda table: table.drop_columns(["topic"]))
    less, more = (
        diff_releases(release, own_release, parts_of_release),
        diff_releases(own_release, release, parts_of_release),
    )
    assert (less.schema_changes, less.bump) == (["bench.topic: left"], Bump.MAJOR)
    assert (more.schema_changes, more.bump) == (["bench.topic: came"], Bump.MINOR)


def test_another_rule_seed_day_and_part_of_the_policy_are_named(release, own_release):
    manifest = own_release / "manifest.json"
    text = manifest.read_text()
    assert '"seed": 0' in text and '"nsfw_image"' in text
    manifest.write_text(text.replace('"seed": 0', '"seed": 7').replace('"nsfw_image"', '"naked"'))
    rules = diff_releases(release, own_release, parts_of_release).rules
    assert "settings.seed: 0 became 7" in rules
    words = "nudity or sex with probability 0.8 or more in an image"
    assert f"policy no longer drops: nsfw_image: {words}" in rules
    assert f"policy now drops: naked: {words}" in rules
    policy = manifest_of(own_release)["policy"]
    policy["duplicates"]["prompt_cosine_min"] = 0.5
    rename = {"model": "a", "to": "b", "since": None, "until": None}
    write_manifest(own_release, policy=policy | {"renames": [rename]}, last_day="2030-01-01")
    rules = diff_releases(release, own_release, parts_of_release).rules
    assert "policy.duplicates.prompt_cosine_min: 0.9 became 0.5" in rules
    assert f"policy.renames: [] became {[rename]}" in rules
    assert any(rule.startswith("last_day: ") and rule.endswith(" became 2030-01-01") for rule in rules)


@pytest.mark.parametrize(
    ("version", "last_day", "suggested"),
    [
        ("1.2.3", "2030-01-01", "1.3.0"), ("2024-09-17", "2030-01-01", "2030-01-01"),
        ("2024-09-18", "2024-09-18", "2024-09-18-attempt2"), ("2024.07.17", "2024-07-26", "2024.07.26"),
        ("2024.07.17.3", "2024-07-26", "2024.07.26"), ("2024.07.26", "2024-07-26", "2024.07.26-attempt2"),
        ("2024.07.26.1", "2024-07-26", "2024.07.26-attempt3"),
        ("2024.07.26-attempt3", "2024-07-26", "2024.07.26-attempt4"),
        ("2024.07.17-attempt9", "2024-07-26", "2024.07.26"), ("2024.7.17", "2024-07-26", "2024.8.0"),
        ("v9", "2030-01-01", "v10"), ("first", "2030-01-01", "first-2"),
    ],
)  # fmt: skip
def test_the_suggested_version_comes_after_the_old_one(release, own_release, version, last_day, suggested):
    write_manifest(own_release, last_day=last_day)
    _rewrite(own_release, "chat", lambda table: table.slice(1))
    older = own_release.with_name("older")
    shutil.copytree(release, older)
    write_manifest(older, version=version)
    assert diff_releases(older, own_release, parts_of_release).next_version == suggested


@pytest.mark.parametrize("content", [None, b"PAR1"])
def test_a_shard_that_is_missing_or_broken_is_one_clear_error(release, own_release, content):
    (shard,) = (own_release / "bench" / "data").glob("*.parquet")
    shard.unlink() if content is None else shard.write_bytes(content)
    with pytest.raises(BadInput, match=r"bench.*; `curate verify` says"):
        diff_releases(release, own_release, parts_of_release)


def test_a_row_that_left_says_what_drops_it(store):
    why = removal_reasons(store)
    assert why("chat", ["d0", "c00", "never seen"]) == {
        "d0": ["face"],
        "c00": ["its prompt is in the benchmark"],
        "never seen": ["not in the store"],
    }


REDACTS = {"reason": "pii", "signal": "text_pii.types", "over": "messages", "contains_any": [], "action": "redact"}
RENAME = {"model": "a", "to": "z", "since": None, "until": None}


def _with_changes(old, new):
    changes = []
    return diff_releases(old, new, parts_of_release, tell=changes.append), changes


def _other_topics(rows):
    return [row | {"topic": f"{row['topic']} and more"} for row in rows]


def test_topics_of_a_new_fit_are_the_cause_of_other_topics_and_another_name_alone_is_no_new_fit(release, own_release):
    rewrite(own_release, CHAT, _other_topics)
    found, changes = _with_changes(release, own_release)
    assert (found.rules, {tuple(row.why) for row in changes}) == ([], {()})
    write_manifest(own_release, topics_fit="another fit")
    known, shown = manifest_of(release), policy_hash(released_policy(POLICY))
    assert (known["topics_fit"], known["topics_fit_day"]) == ("a fit", "2024-09-18")
    assert (known["topics_fit_policy"], known["bench_policy"]) == (shown, shown)
    found, changes = _with_changes(release, own_release)
    assert [line for line in found.rules if line.startswith("topics were fitted anew: ")] == found.rules
    assert {(*row.columns, *row.why) for row in changes} == {("topic", "topics were fitted anew")}
    assert found.why["chat"] == {"topics were fitted anew": len(changes)}
    write_manifest(own_release, topics_fit=None)
    assert diff_releases(release, own_release, parts_of_release).rules == [], "no fit is blamed that nobody named"


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
    _, changes = _with_changes(release, own_release)
    assert {tuple(row.why) for row in changes} == {(why,) if why else ()}


@pytest.mark.parametrize(
    ("version", "shard", "change", "fit", "expected"),
    [
        ("1.2.3", CHAT, lambda rows: rows[1:], "a fit", (Bump.MINOR, "1.3.0", ["chat: 1 added"])),
        ("1.2.3", CHAT, _other_topics, "a fit", (Bump.PATCH, "1.2.4", ["chat: 23 changed"])),
        ("1.2.3", CHAT, _other_topics, "another", (Bump.MINOR, "1.3.0", ["topics were fitted anew"])),
        ("1.2.3", CHAT, lambda rows: rows, "a fit", (Bump.NONE, None, [])),
        ("2024.09", CHAT, _other_topics, "a fit", (Bump.PATCH, "2024.10", ["chat: 23 changed"])),
        ("1.2.3", BENCH, lambda rows: [], "a fit", (Bump.MAJOR, "2.0.0", ["another benchmark: 1 added"])),
        (
            "1.2.3", BENCH, lambda rows: [row | {"question_id": "else"} for row in rows], "a fit",
            (Bump.MAJOR, "2.0.0", ["another benchmark: 1 added, 1 removed"]),
        ),
        (
            "1.2.3", BENCH, lambda rows: [row | {"turns": []} for row in rows], "another",
            (Bump.MAJOR, "2.0.0", ["another benchmark: 1 reworded"]),
        ),
        ("1.2.3", BENCH, _other_topics, "a fit", (Bump.PATCH, "1.2.4", ["bench: 1 changed"])),
    ],
)  # fmt: skip
def test_the_next_version_is_the_earlier_one_with_the_bump(
    release, own_release, tmp_path, version, shard, change, fit, expected
):
    earlier = own_release.rename(tmp_path / "earlier")
    write_manifest(earlier, version=version, topics_fit=fit)
    later = tmp_path / "later"
    later.mkdir()
    for path in release.iterdir():
        (later / path.name).symlink_to(path)
    rewrite(earlier, shard, change)
    config, rows = shard.partition("/")[0], pq.read_metadata(earlier / shard).num_rows
    write_manifest(earlier, counts=manifest_of(earlier)["counts"] | {config: rows})
    found = diff_releases(earlier, later, parts_of_release)
    assert (found.bump, found.next_version, found.bump_why) == expected


def test_the_command_counts_rows_of_a_new_fit_and_lists_the_others(curate, release, own_release):
    write_manifest(own_release, topics_fit="another fit")
    rewrite(own_release, CHAT, lambda rows: [rows[0] | {"model": "z"}, *_other_topics(rows[1:])])
    code, out, _ = curate("diff", release, own_release)
    assert (code, out.count("topics were fitted anew")) == (0, 3)
    (listed,) = [line for line in out.splitlines() if line.startswith("  changed ") and '"' in line]
    assert listed.endswith("  model")
    assert f"… {len(pl.read_parquet(release / CHAT)) - 1} more; all with --json" in out


def test_every_row_with_a_topic_has_a_place_and_one_that_moved_is_told(release, own_release):
    points = pl.read_parquet(release / MAP)
    chat = pl.read_parquet(release / "chat" / "data" / "*.parquet", columns=["conversation_id", "topic_id"])
    placed = points.filter(config="chat").select(conversation_id="id", topic_id="topic_id")
    assert placed.equals(chat.drop_nulls("topic_id")) and points["x"].null_count() == 0
    assert set(points["config"]) == {"chat", "battle", "bench", "failures"}
    assert problems_of(release) == []
    rewrite(own_release, MAP, lambda rows: [rows[0] | {"x": 77.0}, *rows[1:]])
    assert (
        "topic map: 1 rows of both releases have another place"
        in diff_releases(release, own_release, parts_of_release).rules
    )
    assert diff_releases(release, release, parts_of_release).rules == []


IMAGE = pl.List(pl.Struct({"path": pl.String, "bytes": pl.Binary}))
ROW = {"conversation_id": pl.String, "images": IMAGE, "model": pl.String, "num_turns": pl.Int64}


def drawn_rows(drawn):
    """Row of chat by id, some without values; the bytes of an image differ from those of its path."""
    ids = drawn.sample([f"c{number}" for number in range(12)] + ["é", "C", "𐀀", ""], 10)
    rows = {}
    for conversation_id in ids:
        paths = drawn.choice([[], ["a"], ["b"], ["a", "b"]])
        images = [{"path": path, "bytes": drawn.randbytes(3)} for path in paths]
        rows[conversation_id] = {"images": images, "model": drawn.choice(["x", "y", None]),
                                 "num_turns": drawn.choice([1, None])}  # fmt: skip
    return rows


def written_shards(folder, rows):
    """Two shards of row groups of three rows."""
    frame = pl.DataFrame([{"conversation_id": key} | row for key, row in rows.items()], schema=ROW)
    paths = [folder / "0.parquet", folder / "1.parquet"]
    folder.mkdir()
    for path, part in zip(paths, (frame[:4], frame[4:]), strict=True):
        part.write_parquet(path, row_group_size=3)
    return paths


@pytest.mark.parametrize("seed", range(8))
def test_drawn_rows_differ_as_the_rule_says(tmp_path, seed):
    drawn = random.Random(seed)
    old, new = drawn_rows(drawn), drawn_rows(drawn)
    compared = diff._Compared("chat", written_shards(tmp_path / "old", old), written_shards(tmp_path / "new", new))
    right, same = [], 0
    for key in sorted({*old, *new}):
        if key not in new:
            right.append((key, "removed", [], ["why"]))
        elif key not in old:
            right.append((key, "added", [], []))
        else:
            paths = [[image["path"] for image in row["images"]] for row in (old[key], new[key])]
            columns = ["images"] if paths[0] != paths[1] else []
            columns += [name for name in ("model", "num_turns") if old[key][name] != new[key][name]]
            if columns:
                right.append((key, "changed", columns, ["renamed"] if "model" in columns else []))
            else:
                same += 1
    changes = compared.changes(lambda _, removed: {key: ["why"] for key in removed}, {"model": "renamed"})
    assert [(row.id, row.change, row.columns, row.why) for row in changes] == right
    assert compared.counts["same"] == same and sum(compared.counts.values()) == len({*old, *new})


POINT = {"config": pl.String, "id": pl.String, "topic_id": pl.Int32, "x": pl.Float32, "y": pl.Float32}


def drawn_points(drawn):
    """A point by configuration and id."""
    keys = [(config, f"c{number}") for config in ("chat", "battle", "bench", "failures") for number in range(6)]
    return {key: (drawn.randint(0, 1), drawn.choice([0.0, 1.5]), 0.5) for key in drawn.sample(keys, 15)}


def points_frame(points):
    return pl.DataFrame([(*key, *point) for key, point in points.items()], schema=POINT, orient="row")


@pytest.mark.parametrize("seed", range(8))
def test_drawn_points_that_are_not_those_of_the_rows_are_counted(seed):
    drawn = random.Random(seed)
    points = drawn_points(drawn)
    rows = {}
    for key in sorted({*drawn_points(drawn), *drawn.sample([*points], 8)}):
        is_without = key[0] in ("battle", "failures")
        rows[key] = None if is_without or drawn.random() < 0.2 else drawn.randint(0, 1)
    places = {}
    for (_, name), point in points.items():
        places.setdefault(name, set()).add(point)
    two_places = sum(len(of_id) > 1 for of_id in places.values())
    strange = sum(
        key not in rows or (rows[key] != point[0] and key[0] not in ("battle", "failures"))
        for key, point in points.items()
    )
    lacking = sum(topic is not None and key not in points for key, topic in rows.items())
    right = [
        (two_places, "rows have another point or topic than the same conversation in another configuration"),
        (strange, "points are of no released row, or of another topic"),
        (lacking, "released rows with a topic have no point"),
    ]
    frame = pl.DataFrame([(*key, topic) for key, topic in rows.items()], schema=[*POINT.items()][:3], orient="row")
    problems = [*wrong_places(points_frame(points), frame)]
    assert problems == [f"{MAP}: {count} {words}" for count, words in right if count]


@pytest.mark.parametrize("seed", range(4))
def test_drawn_points_that_moved_are_counted(tmp_path, seed):
    drawn = random.Random(seed)
    old, new = drawn_points(drawn), drawn_points(drawn)
    for name, points in (("old", old), ("new", new)):
        (tmp_path / name / MAP).parent.mkdir(parents=True)
        points_frame(points).write_parquet(tmp_path / name / MAP)
    moved = sum(old[key][1:] != new[key][1:] for key in old.keys() & new.keys())
    lines = [f"topic map: {moved} rows of both releases have another place"] if moved else []
    assert [*moved_points(tmp_path / "old", tmp_path / "new")] == lines
