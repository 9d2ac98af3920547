"""Images that look the same: pHash, PDQ and thumbnail correlation must agree, and there are no chains."""

from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.items.image import NearImage
from schemas.policy import NearImages
from tasks.dedup.near_images import grey_correlations, near_hashes, near_images, representatives
from tasks.storage.tables import frame_of
from tests.builders import NOON, conversation

A, B, C = "a" * 32, "b" * 32, "c" * 32
RADIUS = NearImages()


def _bits(count: int, digits: int) -> str:
    return f"{(1 << count) - 1:0{digits}x}"


STRIPES, HALVES = np.arange(1024).reshape(32, 32) % 2 * 2.0 - 1, np.arange(1024).reshape(32, 32) // 512 * 2.0 - 1


def _image(image_id: str, phash_bits: int = 0, pdq_bits: int = 0, correlation: float = 1.0) -> dict:
    """An image that far from the one with no bits set that shows halves."""
    grey = (128 + 100 * (correlation * HALVES + np.sqrt(1 - correlation**2) * STRIPES)).clip(0, 255).astype(np.uint8)
    hashes = {"phash": _bits(phash_bits, 16), "pdq": _bits(pdq_bits, 64), "grey": grey.tobytes().hex()}
    return {"image_id": image_id, **hashes}


def _pairs(*images: dict) -> list[tuple[str, str]]:
    return _search(pl.DataFrame(images)).select("image_a", "image_b").rows()


def _search(images: pl.DataFrame, radius: NearImages = RADIUS) -> pl.DataFrame:
    return near_images(near_hashes(images, radius), images, radius)


def test_an_image_at_the_limit_of_all_three_is_near():
    found = _search(pl.DataFrame([_image(A), _image(B, 8, 48, 0.976)]))
    (row,) = found.iter_rows(named=True)
    assert (row["image_a"], row["image_b"], row["phash_distance"], row["pdq_distance"]) == (A, B, 8, 48)
    assert row["grey_correlation"] == pytest.approx(0.976, abs=1e-3)


@pytest.mark.parametrize("far", [(9, 0, 1.0), (0, 49, 1.0), (0, 0, 0.974)], ids=["phash", "pdq", "pixels"])
def test_a_pair_beyond_one_bound_is_no_pair(far):
    assert _pairs(_image(A), _image(B, *far)) == []


def test_the_radius_is_the_policys():
    wide = NearImages(phash_distance_max=9, pdq_distance_max=49, grey_correlation_min=0.5)
    images = pl.DataFrame([_image(A), _image(B, 9, 49, 0.6)])
    assert _search(images, wide).height == 1
    assert _search(images).height == 0


@pytest.mark.parametrize("images", [[], [_image(A)]])
def test_fewer_than_two_images_make_no_pair(images):
    schema = {"image_id": pl.String, "phash": pl.String, "pdq": pl.String, "grey": pl.String}
    assert _search(pl.DataFrame(images, schema=schema)).height == 0


WHITE, BLACK, GREY = (np.full((1, 1024), level, np.uint8) for level in (255, 0, 128))


@pytest.mark.parametrize(
    ("one", "other", "correlation"),
    [
        (WHITE, WHITE - 3, 1.0),
        (WHITE, BLACK, 0.0),
        (GREY, (128 + 100 * HALVES).astype(np.uint8).reshape(1, -1), 0.0),
    ],
    ids=["equally flat", "flat and unlike", "flat and varied"],
)
def test_correlation_of_pixels(one, other, correlation):
    (found,) = grey_correlations(np.vstack([one, other]), np.array([0]), np.array([1]))
    assert found == pytest.approx(correlation, abs=1e-4)


def test_correlations_are_numpys(monkeypatch):
    monkeypatch.setattr("tasks.dedup.near_images.PAIRS_AT_ONCE", 7)
    pixels = np.random.default_rng(0).integers(0, 256, (10, 1024), dtype=np.uint8)
    i, j = np.triu_indices(10, 1)
    assert np.allclose(grey_correlations(pixels, i, j), np.corrcoef(pixels)[i, j], atol=1e-5)


def _near(*pairs: tuple[str, str, int]) -> pl.DataFrame:
    rows = [
        NearImage(image_a=min(a, b), image_b=max(a, b), phash_distance=0, pdq_distance=distance, grey_correlation=1.0)
        for a, b, distance in pairs
    ]
    return frame_of(NearImage, rows)


def test_of_two_that_could_stand_for_it_the_nearer_does():
    assert representatives([A, B, C], _near((A, C, 5), (B, C, 4)))[C] == B
    assert representatives([A, B, C], _near((A, C, 4), (B, C, 4)))[C] == A


NAMES = st.sampled_from("abcdefg")


@given(st.permutations("abcdefg"), st.sets(st.tuples(NAMES, NAMES), max_size=12), st.randoms(use_true_random=False))
def test_laws_of_representatives(order, pairs, chance):
    pairs = sorted({(min(pair), max(pair)) for pair in pairs if len(set(pair)) == 2})
    listed = [(a, b, (ord(a) * ord(b)) % 3) for a, b in pairs]
    chosen = representatives(order, _near(*listed))
    for name, stands in chosen.items():
        assert chosen[stands] == stands
        assert name == stands or (min(name, stands), max(name, stands)) in pairs
        assert order.index(stands) <= order.index(name)
    alone = [name for name in order if chosen[name] == name]
    assert not [pair for pair in pairs if pair[0] in alone and pair[1] in alone]
    chance.shuffle(listed)
    assert representatives(order, _near(*listed)) == chosen


def _copies(deciding, second_prompt: str) -> dict:
    chats = [
        conversation("original", "What is this?", "A cat.", image_ids=[A]),
        conversation("resized", second_prompt, "Cat.", image_ids=[B], tstamp=NOON + timedelta(minutes=1)),
    ]
    near = {image.pop("image_id"): image for image in (_image(A), _image(B, 4, 20, 0.98))}
    decided = deciding.given(chats, facts={"image_hash": near}).decide()
    assert deciding.store.read("near_images").select("image_a", "image_b").rows() == [(A, B)]
    return decided


def test_the_same_question_about_a_copy_of_the_image_is_a_repeat(deciding):
    assert _copies(deciding, "What is this?")["resized"]["duplicate_of"] == "original"


def test_another_question_about_a_copy_of_the_image_is_no_repeat(deciding):
    assert _copies(deciding, "Who painted it?")["resized"]["keep"]
