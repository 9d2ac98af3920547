"""Images that look the same by three measures at once, searched for among new ones only, without chains."""

from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.items.image import NearImage
from schemas.policy import NearImages
from tasks.dedup.colours import CELLS
from tasks.dedup.near_images import (
    COSINES_AT_ONCE,
    grey_correlations,
    near_hashes,
    near_images,
    representatives,
    update_near_images,
)
from tasks.storage.tables import Store, frame_of
from tests.builders import NOON, VERSIONS, conversation, facts_frame

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


def test_an_image_at_the_limit_of_all_three_measures_is_near():
    found = _search(pl.DataFrame([_image(A), _image(B, 8, 48, 0.976)]))
    (row,) = found.iter_rows(named=True)
    assert (row["image_a"], row["image_b"], row["phash_distance"], row["pdq_distance"]) == (A, B, 8, 48)
    assert row["grey_correlation"] == pytest.approx(0.976, abs=1e-3)


WIDE = NearImages(phash_distance_max=9, pdq_distance_max=49, grey_correlation_min=0.5)


@pytest.mark.parametrize(("radius", "pairs"), [(WIDE, 1), (RADIUS, 0)], ids=["wide", "usual"])
def test_the_radius_of_a_policy_says_how_far_an_image_may_be(radius, pairs):
    assert _search(pl.DataFrame([_image(A), _image(B, 9, 49, 0.6)]), radius).height == pairs


@pytest.mark.parametrize("far", [(9, 0, 1.0), (0, 49, 1.0), (0, 0, 0.974)], ids=["phash", "pdq", "pixels"])
def test_a_pair_beyond_one_bound_is_no_pair(far):
    assert _pairs(_image(A), _image(B, *far)) == []


@pytest.mark.parametrize("images", [[], [_image(A)]])
def test_fewer_than_two_images_make_no_pair(images):
    schema = {"image_id": pl.String, "phash": pl.String, "pdq": pl.String, "grey": pl.String}
    assert _search(pl.DataFrame(images, schema=schema)).height == 0


WHITE, BLACK, GREY = (np.full((1, 1024), level, np.uint8) for level in (255, 0, 128))


@pytest.mark.parametrize(
    ("one", "other", "correlation"),
    [(WHITE, WHITE - 3, 1.0), (WHITE, BLACK, 0.0), (GREY, (128 + 100 * HALVES).astype(np.uint8).reshape(1, -1), 0.0)],
    ids=["equally flat", "flat and unlike", "flat and varied"],
)
def test_flat_images_correlate_by_their_level_alone(one, other, correlation):
    (found,) = grey_correlations(np.vstack([one, other]), np.array([0]), np.array([1]))
    assert found == pytest.approx(correlation, abs=1e-4)


def test_correlations_are_numpys():
    pixels = np.random.default_rng(0).integers(0, 256, (200, 1024), dtype=np.uint8)
    i, j = np.triu_indices(200, 1)
    assert COSINES_AT_ONCE < len(i) < 2 * COSINES_AT_ONCE
    assert np.allclose(grey_correlations(pixels, i, j), np.corrcoef(pixels)[i, j], atol=1e-5)


def _near(*pairs: tuple[str, str, int]) -> pl.DataFrame:
    rows = [
        NearImage(image_a=min(a, b), image_b=max(a, b), phash_distance=0, pdq_distance=distance, grey_correlation=1.0)
        for a, b, distance in pairs
    ]
    return frame_of(NearImage, rows)


def test_of_two_that_could_stand_for_an_image_the_nearer_does():
    assert representatives([A, B, C], _near((A, C, 5), (B, C, 4)))[C] == B


def test_of_two_that_could_stand_for_an_image_from_equally_near_the_first_does():
    assert representatives([A, B, C], _near((A, C, 4), (B, C, 4)))[C] == A


NAMES = st.sampled_from("abcdefg")


ORDERS = st.permutations("abcdefg")
NEAR_PAIRS = st.sets(st.tuples(NAMES, NAMES), max_size=12).map(
    lambda pairs: [
        (a, b, (ord(a) * ord(b)) % 3) for a, b in sorted({(min(pair), max(pair)) for pair in pairs}) if a != b
    ]
)
"""Two names in order, and the distance of their images."""


@given(ORDERS, NEAR_PAIRS)
def test_who_stands_for_another_image_stands_for_itself(order, pairs):
    chosen = representatives(order, _near(*pairs))
    assert all(chosen[stands] == stands for stands in chosen.values())


@given(ORDERS, NEAR_PAIRS)
def test_only_an_image_near_another_stands_for_it(order, pairs):
    near = {(a, b) for a, b, _ in pairs}
    chosen = representatives(order, _near(*pairs))
    assert {(min(pair), max(pair)) for pair in chosen.items() if len({*pair}) == 2} <= near


@given(ORDERS, NEAR_PAIRS)
def test_no_later_image_stands_for_an_earlier_one(order, pairs):
    chosen = representatives(order, _near(*pairs))
    assert all(order.index(stands) <= order.index(name) for name, stands in chosen.items())


@given(ORDERS, NEAR_PAIRS)
def test_of_two_near_images_one_is_stood_for(order, pairs):
    chosen = representatives(order, _near(*pairs))
    alone = {name for name in order if chosen[name] == name}
    assert not [(a, b) for a, b, _ in pairs if {a, b} <= alone]


@given(ORDERS, NEAR_PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_pairs_does_not_change_who_stands_for_an_image(order, pairs, chance):
    mixed = chance.sample(pairs, len(pairs))
    assert representatives(order, _near(*mixed)) == representatives(order, _near(*pairs))


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


RAMP = bytes(range(256)).hex() * 4
IDS = [f"{number:032x}" for number in range(12)]


RED, BLUE = bytes([110, 200] * CELLS).hex(), bytes([200, 110] * CELLS).hex()


def _hold(store: Store, images: dict[str, int], **colours: str) -> None:
    """These images, each with the given bits in both hashes, are what the store holds, and colours of some."""
    hashes = {name: {"phash": f"{bits:016x}", "pdq": f"{bits:064x}", "grey": RAMP} for name, bits in images.items()}
    store.replace("signals/image_hash", facts_frame("image_hash", hashes))
    chromas = {name: {"chroma": chroma} for name, chroma in colours.items()}
    store.replace("signals/image_colour", facts_frame("image_colour", chromas))


def _stored_pairs(store: Store) -> list[tuple[str, str]]:
    return store.read("near_images").select("image_a", "image_b").rows()


def _searched(store: Store, radius: NearImages = RADIUS) -> int:
    return update_near_images(store, radius, VERSIONS)["searched"]


BITS = {name: (1 << 3 * (place % 7)) - 1 for place, name in enumerate(IDS)}
IMAGES = st.sets(st.sampled_from(IDS)).map(lambda names: {name: BITS[name] for name in names})


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(IMAGES, min_size=1, max_size=3))
def test_nights_give_the_table_that_one_search_gives(tmp_path_factory, nights):
    by_night, at_once = (Store.open(str(tmp_path_factory.mktemp("store"))) for _ in range(2))
    for images in nights:
        _hold(by_night, images)
        update_near_images(by_night, RADIUS, VERSIONS)
    _hold(at_once, nights[-1])
    update_near_images(at_once, RADIUS, VERSIONS)
    for table in ("near_images", "searched_images"):
        assert by_night.read(table).equals(at_once.read(table))


@pytest.fixture
def store(tmp_path) -> Store:
    store = Store.open(str(tmp_path))
    _hold(store, {IDS[0]: 0, IDS[1]: 1, IDS[2]: 2**40 - 1})
    return store


def test_images_that_were_searched_for_are_not_searched_for_again(store):
    assert [_searched(store), _searched(store)] == [3, 0]


def test_only_new_images_are_searched_for(store):
    _searched(store)
    _hold(store, {IDS[0]: 0, IDS[1]: 1, IDS[2]: 2**40 - 1, IDS[3]: 3})
    assert _searched(store) == 1


def test_a_new_image_is_paired_with_those_that_were_searched_for_before(store):
    _searched(store)
    _hold(store, {IDS[0]: 0, IDS[1]: 1, IDS[2]: 2**40 - 1, IDS[3]: 3})
    _searched(store)
    assert _stored_pairs(store) == [(IDS[0], IDS[1]), (IDS[0], IDS[3]), (IDS[1], IDS[3])]


def test_a_colour_that_is_measured_a_night_later_ends_a_pair(store):
    """The first night a worker failed; the second one gives the pairs that one search of all gives."""
    images = {A: 0, B: 0}
    _hold(store, images, **{A: RED})
    _searched(store)
    before = _stored_pairs(store)
    _hold(store, images, **{A: RED, B: BLUE})
    assert (before, _searched(store), _stored_pairs(store)) == ([(A, B)], 1, [])


def test_another_radius_searches_everything_again(store):
    _searched(store)
    assert _searched(store, NearImages(phash_distance_max=0)) == 3


def test_another_radius_leaves_no_pair_of_the_radius_before(store):
    _searched(store)
    _searched(store, NearImages(phash_distance_max=0))
    assert _stored_pairs(store) == []


@pytest.fixture
def without_one(store) -> Store:
    """The store after a search, which then lost one of two images that are a pair."""
    _searched(store)
    _hold(store, {IDS[0]: 0, IDS[2]: 2**40 - 1})
    return store


def test_nothing_is_searched_for_because_an_image_is_gone(without_one):
    assert _searched(without_one) == 0


def test_an_image_that_is_gone_takes_its_pairs_with_it(without_one):
    _searched(without_one)
    assert _stored_pairs(without_one) == []


def test_an_image_that_is_gone_no_longer_counts_as_searched_for(without_one):
    _searched(without_one)
    assert without_one.read("searched_images")["image_id"].to_list() == [IDS[0], IDS[2]]


def test_a_search_killed_between_its_two_tables_is_made_again(store):
    _searched(store)
    store.replace("searched_images", store.empty("searched_images"))
    store.replace("near_images", store.empty("near_images"))
    assert _searched(store) == 3
    assert _stored_pairs(store) == [(IDS[0], IDS[1])]
