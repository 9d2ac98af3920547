"""`curate verify` proves rows, images and manifest, also when checksums were made to fit; nothing hidden is in it."""

import io
import json
import shutil
from pathlib import Path

import PIL.Image
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.products import problems_of
from schemas.benches.bench import HiddenItem
from schemas.errors import BadInput
from schemas.release import ReleasedItem
from tasks.images.decode import open_image
from tasks.release import verify
from tasks.release.build import released_files
from tasks.release.build import write_manifest as write_sealed
from tasks.release.contents import ImageLists
from tasks.release.fetched import read_manifest
from tasks.release.registered import write_table
from tasks.release.verify import verify_release
from tasks.storage.tables import frame_of
from tests.builders import image_bytes
from tests.small_store import make_release, manifest_of
from tests.tampered_release import BATTLE, BENCH, CHAT, FAILURES, change_row, reseal, rewrite, write_manifest


def _with_image(release, content, path=None):
    def change(rows):
        image = {"bytes": content, "path": path or rows[0]["images"][0]["path"]}
        return [rows[0] | {"images": [image]}, *rows[1:]]

    rewrite(release, CHAT, change)


def _shown_as(content, row):
    return row | {"images": [image | {"bytes": content} for image in row["images"]]}


def test_equal_shards_and_a_manifest_laid_out_anew_have_no_problems(own_release):
    rewrite(own_release, CHAT, lambda rows: rows)  # so that the findings below are about what they change
    assert problems_of(own_release) == []
    (own_release / "manifest.json").write_text(json.dumps(manifest_of(own_release)))
    assert problems_of(own_release) == []


@pytest.mark.parametrize("name", [CHAT, "README.md", "leaderboard/overall.csv", "report/index.html"])
def test_a_changed_byte_in_any_file_is_found(own_release, name):
    content = bytearray((own_release / name).read_bytes())
    content[len(content) // 2] ^= 1
    (own_release / name).write_bytes(content)
    assert problems_of(own_release) == [f"{name}: changed since the release was sealed"]


def test_missing_and_additional_files_are_found(own_release):
    (own_release / "README.md").unlink()
    (own_release / "chat" / "data" / "train-00001-of-00002.parquet").write_bytes(b"")
    assert problems_of(own_release) == [
        "README.md: missing",
        "chat/data/train-00001-of-00002.parquet: not in the manifest",
    ]


@pytest.mark.parametrize("config", ["chat", "battle", "bench"])
def test_a_changed_count_in_the_manifest_is_found(own_release, config):
    counts = manifest_of(own_release)["counts"]
    write_manifest(own_release, counts=counts | {config: counts[config] + 1})
    assert problems_of(own_release) == [f"{config}: {counts[config]} rows, the manifest says {counts[config] + 1}"]


def test_a_table_that_no_part_checks_is_a_problem(own_release):
    write_table(own_release, "written", frame_of(ReleasedItem, []))
    reseal(own_release)
    assert verify_release(own_release, lambda release: []) == ["written/items.parquet: nothing checks it"]


@pytest.mark.parametrize(
    ("change", "about"),
    [
        (lambda frame: frame.rename({"model": "name"}), "columns"),
        (lambda frame: frame.with_columns(ip=pl.lit("x")), "columns"),
        (lambda frame: frame.with_columns(pl.col("num_turns").cast(pl.Int64)), "types"),
    ],
)
def test_other_columns_or_types_are_found(own_release, change, about):
    change(pl.read_parquet(own_release / CHAT)).write_parquet(own_release / CHAT)
    reseal(own_release)
    assert about in problems_of(own_release)[0]
    assert "train-00000-of-00001.parquet: columns or their types differ" in problems_of(own_release)[0]


@pytest.mark.parametrize("raw", ["203.0.113.7", "someone@example.com", "ABCDEF0123456789abcdef01", ""])
@pytest.mark.parametrize(("shard", "column"), [(CHAT, "user_id"), (BATTLE, "judge")])
def test_a_raw_identifier_of_a_person_is_found(own_release, shard, column, raw):
    change_row(own_release, shard, **{column: raw})
    assert any(f"{column} holds something that is not a keyed hash" in p for p in problems_of(own_release))


@pytest.mark.parametrize(
    ("text", "kind"),
    [("My router is 203.0.113.7, help.", "ip"), ("Write to a.b@example.com", "email"), ("2001:db8::17", "ip")],
)
@pytest.mark.parametrize(("shard", "column"), [(CHAT, "conversation"), (BATTLE, "conversation_b")])
def test_personal_data_in_a_message_is_found_and_not_repeated(own_release, shard, column, text, kind):
    change_row(own_release, shard, **{column: [{"role": "user", "content": text, "images": []}]})
    problems = problems_of(own_release)
    assert any(problem.endswith(f"a message in {column} holds personal data: {kind}") for problem in problems)
    assert text not in "".join(problems)


def test_processes_find_what_one_finds(own_release, monkeypatch):
    change_row(own_release, CHAT, conversation=[{"role": "user", "content": "203.0.113.7", "images": []}])
    found = problems_of(own_release)
    monkeypatch.setattr(verify, "ROWS_ALONE", manifest_of(own_release)["counts"]["chat"] - 1)
    assert problems_of(own_release) == found != []


def test_personal_data_that_the_policy_keeps_is_no_problem(own_release):
    policy = manifest_of(own_release)["policy"]
    write_manifest(own_release, policy=policy | {"rules": [r for r in policy["rules"] if r["reason"] != "pii_text"]})
    change_row(own_release, CHAT, conversation=[{"role": "user", "content": "203.0.113.7", "images": []}])
    assert not [problem for problem in problems_of(own_release) if "personal data" in problem]


def _with_exif():
    exif = PIL.Image.Exif()
    exif[0x010E] = "a description"
    return image_bytes(0, exif=exif.tobytes())


CUT = open_image(image_bytes(0, (32, 32), "JPEG", quality=90)).encoded.replace(b"\x08\0\x20", b"\x08\0\x19", 1)
"""A stored JPEG with a smaller height in its header: it still holds the last 7 of 32 rows."""
SPOILED = {
    "exif in png": _with_exif(),
    "exif in jpeg": image_bytes(0, file_format="JPEG", exif=PIL.Image.Exif().tobytes() + b"GPS"),
    "comment in jpeg": image_bytes(0, file_format="JPEG", comment=b"taken at home"),
    "more rows in a cropped jpeg": CUT,
    "bytes after the end": image_bytes(0) + b"hidden",
    "not a picture": b"<svg/>",
    "another format": image_bytes(0, file_format="GIF"),
    "empty": b"",
}


@pytest.mark.parametrize("why", SPOILED)
def test_an_image_that_carries_more_than_pixels_or_is_none_is_found(own_release, why):
    _with_image(own_release, SPOILED[why])
    (problem,) = problems_of(own_release)
    assert "carries more than its pixels" in problem or "does not open as an image" in problem


def test_a_cropped_jpeg_in_the_store_of_an_older_version_is_released_as_a_png(own_store):
    cut = pl.lit(CUT, pl.Binary)
    own_store.replace("images", own_store.read("images").with_columns(bytes=cut, format=pl.lit("jpeg")))
    made = own_store.at(make_release(own_store, release="second").result)
    assert all("has other pixels than it is named by" in problem for problem in problems_of(Path(made)))
    (image, *_) = pl.read_parquet(f"{made}/{CHAT}")["images"].explode().drop_nulls()
    assert image["path"].endswith(".png") and image["bytes"] == open_image(CUT).encoded


@pytest.mark.parametrize("file_format", ["PNG", "JPEG"])
def test_a_plain_image_in_place_of_another_is_no_problem_but_for_its_pixels(own_release, file_format):
    plain = io.BytesIO()
    PIL.Image.new("RGB", (8, 8), "red").save(plain, file_format)
    stored = open_image(plain.getvalue()).encoded
    for shard in (CHAT, BATTLE, BENCH, FAILURES):
        rewrite(own_release, shard, lambda rows: [_shown_as(stored, row) for row in rows])
    assert {problem.partition(".png ")[2] for problem in problems_of(own_release)} == {
        "has other pixels than it is named by"
    }


def test_two_images_that_changed_their_names_in_every_row_are_found(own_release):
    first, second = pl.read_parquet(own_release / CHAT)["images"].list.first().struct.field("bytes").unique()[:2]
    other = {first: second, second: first}

    def swapped(rows):
        images = [[each | {"bytes": other.get(each["bytes"], each["bytes"])} for each in r["images"]] for r in rows]
        return [row | {"images": shown} for row, shown in zip(rows, images, strict=True)]

    for shard in (CHAT, BATTLE, BENCH, FAILURES):
        rewrite(own_release, shard, swapped)
    assert len(problems := problems_of(own_release)) == 2
    assert all("has other pixels than it is named by" in problem for problem in problems)


@pytest.mark.parametrize("path", ["/home/me/cat.png", "cat.png", "0" * 32 + ".svg", "../" + "0" * 32 + ".png"])
def test_an_image_path_that_is_no_content_id_is_found(own_release, path):
    _with_image(own_release, image_bytes(0), path)
    assert any("not a content id" in problem for problem in problems_of(own_release))


def test_a_benchmark_prompt_in_chat_is_found(own_release):
    (item,) = pq.read_table(own_release / "bench/data/train-00000-of-00001.parquet").to_pylist()
    answered = [*item["turns"], {"role": "assistant", "content": "It is a cat.", "images": []}]
    change_row(own_release, CHAT, conversation=answered, images=item["images"])
    (problem,) = problems_of(own_release)
    assert "a benchmark prompt is in chat" in problem


def test_an_unmarked_battle_on_a_benchmark_prompt_is_found(own_release):
    rewrite(own_release, BATTLE, lambda rows: [row | {"in_bench": False} for row in rows])
    (problem,) = problems_of(own_release)
    assert "a benchmark prompt is not marked" in problem


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


def test_a_manifest_with_a_name_twice_or_of_a_version_to_come_is_an_error(own_release):
    write_manifest(own_release, software="99.0", signature="x")
    with pytest.raises(BadInput, match=r"it says that arena-curation 99\.0 made it: use that"):
        problems_of(own_release)
    text = json.dumps(manifest_of(own_release))
    (own_release / "manifest.json").write_text('{"software": "/home/alice", ' + text[1:])
    with pytest.raises(BadInput, match="is not a manifest this version understands"):
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


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"version": "1"}', "\xff", "[" * 100_000, '{"version": "/home/alice", "version": "1"}']
)
def test_a_manifest_that_is_broken_or_overwhelms_is_one_clear_error(own_release, content):
    (own_release / "manifest.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(BadInput, match="is not a manifest this version understands"):
        problems_of(own_release)


def test_who_names_a_store_is_told_which_releases_it_holds(own_store, tmp_path):
    root = own_store.root
    for folder in (root, f"{root}/releases"):
        with pytest.raises(BadInput, match=r"holds 1 releases \('first'\): name one, such as '.*releases/first'"):
            problems_of(type(tmp_path)(folder))
    with pytest.raises(BadInput, match="there is no such folder"):
        problems_of(tmp_path / "nope")


ABOUT = {"topic": 0, "first_month": "2024-09", "last_month": "2024-11", "drawn": False}


@pytest.fixture
def held(own_store):
    """A store and a release in it, made before the prompt of c03, b1 and the benchmark's were reserved."""
    store, folder = own_store, Path(own_store.at("releases/first"))
    asked = dict(store.read("conversations").select("conversation_id", "document_id").iter_rows())
    rows = [HiddenItem(document_id=asked[name], **ABOUT) for name in ("c03", "b1", "c00")]
    store.replace("hidden", frame_of(HiddenItem, rows))
    return store, folder


def test_reserved_prompts_are_found_where_the_store_is_there_or_named_and_not_in_its_next_release(held, tmp_path):
    _, folder = held
    problems = problems_of(folder)
    assert {problem.split("/")[0] for problem in problems} == {"chat", "battle", "bench"}
    assert all("is reserved for the hidden split" in problem for problem in problems)
    assert any("'c03'" in problem for problem in problems)
    store, folder = held
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert problems_of(copy) == []
    assert problems_of(copy, store) == problems_of(folder)
    store, _ = held
    folder = tmp_path / "store" / make_release(store, reported=True, release="1.0.1").result
    assert problems_of(folder) == []


@pytest.mark.parametrize("name", ["hidden/train-00000-of-00001.parquet", "report/tables/Hidden_items.csv"])
def test_a_sealed_file_named_after_the_hidden_split_is_a_problem(own_release, name):
    folder = own_release
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"x")
    sealed = read_manifest(folder).model_copy(update={"files": released_files(folder)})
    write_sealed(sealed, folder)
    assert any(problem == f"{name}: the hidden split is in no release" for problem in problems_of(folder))
