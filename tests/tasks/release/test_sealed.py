"""A release proves more than its checksums: which images its rows show, its policy and its columns."""

import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.products import problems_of
from schemas.errors import BadInput
from tasks.release.build import write_manifest as sealed
from tasks.release.contents import ImageLists
from tasks.release.fetched import read_manifest
from tests.small_store import manifest_of
from tests.tampered_release import BATTLE, BENCH, CHAT, change_row, rewrite, write_manifest


@pytest.mark.parametrize("shard", [CHAT, BATTLE, BENCH])
def test_an_image_that_was_taken_out_of_a_row_is_found(own_release, shard):
    change_row(own_release, shard, images=[])
    assert any("shows an image that the row has not" in problem for problem in problems_of(own_release))


def test_images_that_changed_their_rows_are_found(own_release):
    def swap(rows):
        assert rows[0]["images"] != rows[-1]["images"]
        return [rows[0] | {"images": rows[-1]["images"]}, *rows[1:-1], rows[-1] | {"images": rows[0]["images"]}]

    rewrite(own_release, CHAT, swap)
    (problem,) = problems_of(own_release)
    assert problem.startswith("chat: its rows do not show the images")


@pytest.mark.parametrize(
    "change",
    [
        lambda m: {"policy": m["policy"] | {"rules": m["policy"]["rules"][1:]}},
        lambda m: {"settings": m["settings"] | {"seed": 7}},
        lambda m: {"signal_versions": {}},
        lambda m: {"software": "9.9.9"},
        lambda m: {"images": {}},
        lambda m: {"seal": "0" * 64},
    ],
)
def test_a_manifest_that_was_edited_is_found(own_release, change):
    manifest = manifest_of(own_release)
    (own_release / "manifest.json").write_text(json.dumps(manifest | change(manifest)))
    assert problems_of(own_release) == ["manifest.json: changed since the release was sealed"]


def test_a_manifest_that_was_only_laid_out_anew_is_as_it_was(own_release):
    (own_release / "manifest.json").write_text(json.dumps(manifest_of(own_release)))
    assert problems_of(own_release) == []


def test_a_release_with_other_columns_names_them_and_the_version_that_made_it(own_release):
    declared = manifest_of(own_release)["columns"]
    more = [*declared["chat"], {"name": "mood", "type": "string"}]
    write_manifest(own_release, columns=declared | {"chat": more}, software="0.0.9")
    with pytest.raises(
        BadInput, match=r"columns \(chat: mood\); verify it with the version that made it, arena-curation 0.0.9"
    ):
        problems_of(own_release)


@pytest.mark.parametrize("name", ["seal", "images", "columns"])
def test_a_manifest_without_what_proves_it_is_not_accepted(own_release, name):
    manifest = manifest_of(own_release)
    del manifest[name]
    (own_release / "manifest.json").write_text(json.dumps(manifest))
    try:
        problems = problems_of(own_release)
    except BadInput as error:
        problems = [str(error)]
    assert "changed since the release was sealed" in problems[0] or "not a manifest this version" in problems[0]


def test_a_manifest_of_a_version_to_come_names_the_version(own_release):
    write_manifest(own_release, software="99.0", signature="x")
    with pytest.raises(BadInput, match=r"it says that arena-curation 99\.0 made it: use that"):
        problems_of(own_release)


def test_a_manifest_of_another_state_of_this_version_is_not_said_to_be_readable_by_it(own_release):
    """Two states of one version, as of a checkout, may write different manifests."""
    own = manifest_of(own_release)
    counts = {name: count for name, count in own["counts"].items() if name != "failures"}
    write_manifest(own_release, counts=counts)
    made = f"another state of arena-curation {own['software']} than this one made it: use that \\(counts lack failures"
    with pytest.raises(BadInput, match=made):
        problems_of(own_release)


@given(st.lists(st.tuples(st.text(), st.lists(st.sampled_from(["a" * 32, "b" * 32]))), min_size=1), st.data())
def test_the_checksum_of_image_lists_knows_rows_and_not_how_they_are_cut(rows, data):
    def digest(*frames):
        found = ImageLists("chat")
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
    assert problems_of(own_release) == []
