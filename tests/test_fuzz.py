"""Whatever strangers send, a reader keeps, drops or rejects it; nothing else happens.

`make fuzz` runs the same with thirty times the examples.
"""

import gzip
import io
import os
import random
import shutil
import warnings

import numpy as np
import PIL.Image
import polars as pl
import pytest
import yaml
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flows.products import problems_of
from schemas.errors import BadInput, BadPolicy
from schemas.items.reject import RejectReason
from tasks.images.decode import ImageRejected, decode_stored, open_image
from tasks.images.rebuild import is_pixels_alone
from tasks.ingest.log_files import raw_lines
from tasks.leaderboard.battle_files import read_battles
from tasks.policy.policy_file import load_policy
from tests.builders import image_bytes
from tests.small_store import make_release, small_store
from tests.tasks.ingest.logs import chat, image_name, ingested, line, vote
from tests.tasks.ingest.test_formats import ROWS, put

TIMES = int(os.environ.get("CURATE_FUZZ_TIMES", "1"))


def examples(count: int) -> settings:
    """A budget of examples; the long run multiplies it."""
    return settings(max_examples=count * TIMES, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def damaged(draw, contents):
    """One of `contents` with bytes changed, cut out, repeated or put in at some places."""
    raw = bytearray(draw(st.sampled_from(contents)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, min(len(raw), draw(st.sampled_from([64, 1024, len(raw)])))))
        length = draw(st.integers(0, 16))
        raw[start : start + length] = draw(st.binary(max_size=16) | st.just(bytes(raw[:length]) * 2))
    return bytes(raw)


LINES = [line(chat("a", images=[image_name("p")])), line(vote("a", "b")), line(chat("c", kind="flag"))]
PACKED = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}


@examples(6)
@given(suffix=st.sampled_from(list(PACKED)), records=st.lists(damaged(LINES), max_size=20), data=st.data())
def test_every_line_of_a_log_is_a_sighting_or_a_reject(suffix, records, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    content = PACKED[suffix](b"\n".join([*records, LINES[0], b""]))
    if suffix:
        content = data.draw(st.just(content) | damaged([content]))
    (folder / "logs").mkdir()
    (folder / "logs" / f"vision-tmp-2024-06-20-conv.json{suffix}").write_bytes(content)
    store = ingested(folder / "logs", folder / "store")
    kept, rejects = set(store.read("sightings")["line"]), store.read("rejects").drop_nulls("line")
    lost = set(rejects["line"])
    assert kept.isdisjoint(lost) and len(kept) + rejects.height == sum(store.read("log_files")["lines"])
    assert set(rejects["reason"]) <= set(RejectReason)
    if not suffix:
        with io.BufferedReader(io.BytesIO(content)) as stream:
            assert kept | lost == set(range(1, sum(1 for _ in raw_lines(stream)) + 1))


@examples(6)
@given(name=st.sampled_from(list(ROWS)), kind=st.sampled_from(["jsonl", "parquet", "arrow"]), data=st.data())
def test_every_row_of_a_published_dataset_is_a_sighting_or_a_reject_or_the_file_is_refused(
    name, kind, data, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("fuzz")
    row = {key: None if key in ("image", "images") else value for key, value in ROWS[name].items()}
    put(folder / "data", [row] * 3, kind)
    file = next(file for file in (folder / "data").iterdir() if file.suffix == f".{kind}")
    file.write_bytes(data.draw(damaged([file.read_bytes()])))
    try:
        store = ingested(folder / "data", folder / "store", format=name)
    except BadInput as refused:
        assert "\n" not in str(refused)
        return
    kept, rejects = set(store.read("sightings")["line"]), store.read("rejects").drop_nulls("line")
    assert kept.isdisjoint(rejects["line"])
    counted = sum(store.read("log_files")["lines"])
    # An unfinished last line is a reject and counted when complete.
    assert len(kept) + rejects.height - counted in (0, 1)


IMAGES = [image_bytes(1, (40, 30), kind) for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP")]
SIDEWAYS = PIL.Image.Exif()
SIDEWAYS[0x0112] = 6
IMAGES += [image_bytes(1, (40, 30), "JPEG", **each) for each in ({"progressive": True}, {"exif": SIDEWAYS})]


@examples(250)
@given(content=damaged(IMAGES))
def test_an_image_is_rejected_or_stored_as_it_is_seen(content):
    with warnings.catch_warnings(action="ignore"):  # Pillow warns of broken EXIF, and goes on
        try:
            seen = open_image(content)
        except ImageRejected as rejected:
            assert rejected.reason in set(RejectReason) and "\n" not in rejected.evidence
            return
    assert is_pixels_alone(seen.encoded)
    assert np.array_equal(decode_stored(seen.encoded, seen.format, seen.image_id).rgb, seen.rgb)


POLICY = yaml.safe_dump(load_policy("public_release").model_dump(mode="json", exclude_none=True)).encode()


@examples(60)
@given(content=damaged([POLICY]))
def test_a_policy_is_loaded_or_refused_in_one_line(content, tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "policy.yaml"
    path.write_bytes(content)
    try:
        load_policy(str(path))
    except BadPolicy as refused:
        assert "\n" not in str(refused)


def _battles(kind: str) -> bytes:
    frame = pl.DataFrame(
        {
            "model_a": ["a", "b", "c"],
            "model_b": ["b", "c", "a"],
            "winner": ["model_a", "tie", "model_b"],
            "tstamp": [1.7e9, 1.8e9, 1.6e9],
            "conv_metadata": [{"sum_assistant_a_tokens": n} for n in range(3)],
        }
    )
    sink = io.BytesIO()
    {"parquet": frame.write_parquet, "jsonl": frame.write_ndjson, "csv": frame.drop("conv_metadata").write_csv}[kind](
        sink
    )
    return sink.getvalue()


@examples(60)
@given(kind=st.sampled_from(["parquet", "jsonl", "csv"]), data=st.data())
def test_a_battle_table_is_read_or_refused_in_one_line(kind, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / f"battles.{kind}"
    path.write_bytes(data.draw(damaged([_battles(kind)])))
    try:
        assert {"model_a", "model_b", "winner"} <= set(read_battles(path).columns)
    except BadInput as refused:
        assert "\n" not in str(refused)


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """A small release."""
    store = small_store(tmp_path_factory.mktemp("small"))
    make_release(store, reported=True, release="first")
    return tmp_path_factory.getbasetemp() / store.root / "releases" / "first"


@pytest.mark.parametrize("seed", range(6 * TIMES))
def test_a_damaged_release_has_a_problem_or_is_refused_in_one_line(release, tmp_path, seed):
    chance, own = random.Random(seed), shutil.copytree(release, tmp_path / "release")
    file = chance.choice(sorted(path for path in own.rglob("*") if path.is_file()))
    content = bytearray(file.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)
    try:
        assert problems_of(own)
    except BadInput as refused:
        assert "\n" not in str(refused)
