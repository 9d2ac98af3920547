"""A release proves more than its checksums: which pictures its rows show, its policy and its columns."""

import json

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BadInput
from tasks.release.build import write_manifest as sealed
from tasks.release.declared import declared_columns
from tasks.release.picture_lists import PictureLists
from tasks.release.verify import read_manifest, verify_release
from tests.small_store import manifest_of
from tests.tampered_release import BATTLE, BENCH, CHAT, change_row, reseal, rewrite, write_manifest


@pytest.mark.parametrize("shard", [CHAT, BATTLE, BENCH])
def test_a_picture_that_was_taken_out_of_a_row_is_found(own_release, shard):
    change_row(own_release, shard, images=[])
    config = shard.partition("/")[0]
    assert (
        f"{config}: its rows do not show the pictures that they showed when the release was sealed"
        in verify_release(own_release)
    )


def test_pictures_that_changed_their_rows_are_found(own_release):
    def swap(rows):
        assert rows[0]["images"] != rows[-1]["images"]
        return [rows[0] | {"images": rows[-1]["images"]}, *rows[1:-1], rows[-1] | {"images": rows[0]["images"]}]

    rewrite(own_release, CHAT, swap)
    (problem,) = verify_release(own_release)
    assert problem.startswith("chat: its rows do not show the pictures")


@pytest.mark.parametrize(
    "change",
    [
        lambda m: {"policy": m["policy"] | {"rules": m["policy"]["rules"][1:]}},
        lambda m: {"settings": m["settings"] | {"seed": 7}},
        lambda m: {"signal_versions": {}},
        lambda m: {"software": "9.9.9"},
        lambda m: {"pictures": None},
        lambda m: {"seal": "0" * 64},
    ],
)
def test_a_manifest_that_was_edited_is_found(own_release, change):
    manifest = manifest_of(own_release)
    (own_release / "manifest.json").write_text(json.dumps(manifest | change(manifest)))
    assert verify_release(own_release) == ["manifest.json: changed since the release was sealed"]


def test_a_manifest_that_was_only_laid_out_anew_is_as_it_was(own_release):
    (own_release / "manifest.json").write_text(json.dumps(manifest_of(own_release)))
    assert verify_release(own_release) == []


def test_a_release_from_before_there_were_seals_still_verifies(own_release):
    manifest = manifest_of(own_release)
    for name in ("seal", "pictures", "columns"):
        del manifest[name]
    (own_release / "manifest.json").write_text(json.dumps(manifest))
    assert verify_release(own_release) == []
    change_row(own_release, CHAT, user_id="someone")  # and is still looked at
    assert verify_release(own_release)


def _with_columns(release, shard, change):
    """Another table in a shard, with the metadata that `datasets` would write, declared in the manifest."""
    from datasets import Features, Image, List

    table = change(pq.read_table(release / shard))
    features = Features.from_arrow_schema(table.schema.remove_metadata())
    features["images"] = List(Image())
    pq.write_table(table.cast(features.arrow_schema), release / shard)
    reseal(release)
    declared = {name: [column.model_dump() for column in columns] for name, columns in declared_columns().items()}
    types = {column["name"]: column for column in declared[shard.partition("/")[0]]}
    named = [types.get(name, {"name": name, "type": str(table.schema.field(name).type)}) for name in table.column_names]
    write_manifest(release, columns=declared | {shard.partition("/")[0]: named})


def test_a_release_from_before_a_column_was_added_verifies_by_the_columns_it_declares(own_release):
    _with_columns(own_release, CHAT, lambda table: table.drop_columns(["topic", "preset_dataset"]))
    _with_columns(own_release, CHAT, lambda table: table)
    assert verify_release(own_release) == []
    change_row(own_release, CHAT, conversation=[{"role": "user", "content": "a.b@example.com"}], num_turns=1)
    (problem,) = verify_release(own_release)
    assert "personal data: email" in problem


def test_a_column_that_this_version_does_not_know_is_one_clear_line(own_release):
    _with_columns(
        own_release, CHAT, lambda table: table.append_column("mood", pa.array([None] * table.num_rows, pa.string()))
    )
    with pytest.raises(BadInput, match="its chat has mood, unknown here; verify it with the version that made it"):
        verify_release(own_release)


def test_a_release_without_a_column_that_is_checked_is_not_called_whole(own_release):
    _with_columns(own_release, BATTLE, lambda table: table.drop_columns(["in_bench"]))
    with pytest.raises(BadInput, match="its battle lacks in_bench"):
        verify_release(own_release)


def test_a_manifest_of_a_version_to_come_names_the_version(own_release):
    write_manifest(own_release, software="99.0", signature="x")
    with pytest.raises(BadInput, match=r"it says that arena-curation 99\.0 made it: use that"):
        verify_release(own_release)


def test_columns_that_are_not_declared_are_found(own_release):
    declared = manifest_of(own_release)["columns"]
    write_manifest(own_release, columns=declared | {"chat": declared["chat"][1:]})
    (problem,) = verify_release(own_release)
    assert problem == f"{CHAT}: columns or their types differ from the declared ones"


@given(st.lists(st.tuples(st.text(), st.lists(st.sampled_from(["a" * 32, "b" * 32]))), min_size=1), st.data())
def test_the_checksum_of_picture_lists_knows_rows_and_not_how_they_are_cut(rows, data):
    def digest(*frames):
        found = PictureLists("chat")
        for frame in frames:
            found.add(frame)
        return found.hexdigest()

    schema = {"conversation_id": pl.String, "image_ids": pl.List(pl.String)}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    cut = data.draw(st.integers(0, len(rows)))
    assert digest(frame) == digest(frame[:cut], frame[cut:])
    other = data.draw(st.lists(st.tuples(st.text(), st.lists(st.sampled_from(["a" * 32, "b" * 32])))))
    assert (digest(frame) == digest(pl.DataFrame(other, schema=schema, orient="row"))) == (rows == other)


def test_writing_a_manifest_seals_it(own_release):
    sealed(read_manifest(own_release).model_copy(update={"software": "0.0.1"}), own_release)
    assert verify_release(own_release) == []
