"""All pairs within a Hamming radius: every one, once, however they are looked for."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.decide.hamming import BRUTE_ROWS_MAX, ROWS_AT_ONCE, hamming_pairs, hashes_from_hex
from tasks.decide.hamming_join import bands, cheapest_bands, close_pairs

HASHES = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 255), max_size=30)


def _expected(values: list[int], radius: int) -> list[tuple[int, int]]:
    pairs = [(i, j) for i in range(len(values)) for j in range(i + 1, len(values))]
    return [(i, j) for i, j in pairs if (values[i] ^ values[j]).bit_count() <= radius]


def _rows(pairs) -> list[tuple[int, int]]:
    return list(map(tuple, pairs.tolist()))


def _banded(values, radius, count, fresh=None, confirming=None, confirming_radius=0):
    n = len(values)
    fresh = np.ones(n, np.bool_) if fresh is None else np.array(fresh, np.bool_)
    confirming = np.empty((n, 0), np.uint64) if confirming is None else confirming
    hashes = np.array(values, np.uint64)
    return close_pairs(hashes, confirming, fresh, bands(count, radius), radius, confirming_radius)


@settings(max_examples=40)
@given(HASHES, st.integers(0, 64))
def test_comparing_all_with_all_finds_every_pair_once_in_order(values, radius):
    assert _rows(hamming_pairs(np.array(values, np.uint64), radius)) == _expected(values, radius)


@settings(max_examples=40)
@given(HASHES, st.integers(0, 12), st.integers(4, 16))
def test_the_join_finds_every_pair_once_in_order(values, radius, count):
    assert _rows(_banded(values, radius, count)) == _expected(values, radius)


@settings(max_examples=60)
@given(HASHES, st.integers(0, 10), st.integers(4, 8), st.data())
def test_old_and_fresh_searches_together_find_what_one_search_finds(values, radius, count, data):
    fresh = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    expected = [(i, j) for i, j in _expected(values, radius) if fresh[i] or fresh[j]]
    assert _rows(_banded(values, radius, count, fresh)) == expected
    assert _rows(hamming_pairs(np.array(values, np.uint64), radius, fresh=np.array(fresh, np.bool_))) == expected


@pytest.mark.parametrize("way", ["all with all", "join"])
def test_the_longer_hash_confirms_up_to_its_own_radius(way):
    values = [0, 0, 0]
    longer = np.array([[0, 0], [7, 0], [7, 1]], np.uint64)
    if way == "join":
        found = _banded(values, 2, 5, confirming=longer, confirming_radius=3)
    else:
        found = hamming_pairs(np.zeros(3, np.uint64), 2, confirming=longer, confirming_radius=3)
    assert _rows(found) == [(0, 1), (1, 2)]


def _clustered(n: int) -> np.ndarray:
    """Hashes as skewed as those of screenshots: a few centres, most of their bits in common, many exactly equal."""
    generator = np.random.default_rng(0)
    centres = generator.integers(0, 2**64, 20, dtype=np.uint64) & np.uint64(0x00FF00FF0000FFFF)
    flips = np.uint64(1) << generator.integers(0, 64, (n, 6)).astype(np.uint64)
    return centres[generator.integers(0, 20, n)] ^ np.bitwise_xor.reduce(flips, axis=1) * (np.arange(n) % 3 > 0)


@pytest.mark.parametrize("count", [4, 5, 7])
def test_the_join_agrees_with_all_with_all_on_skewed_hashes(count):
    hashes = _clustered(3000)
    pairs = hamming_pairs(hashes, 8)
    assert len(pairs) > 50_000 and len(hashes) <= BRUTE_ROWS_MAX
    assert np.array_equal(_banded(hashes, 8, count), pairs)


def test_many_hashes_take_the_join_and_find_the_planted_pairs():
    n = 4 * BRUTE_ROWS_MAX
    hashes = np.random.default_rng(1).integers(0, 2**64, n, dtype=np.uint64)
    hashes[1::2] = hashes[::2] ^ np.uint64(0b1111_0000_1111)
    assert _rows(hamming_pairs(hashes, 8)) == [(i, i + 1) for i in range(0, n, 2)]


@given(st.integers(0, 63), st.integers(4, 16))
def test_the_bands_cover_all_bits_and_leave_no_pair_out(radius, count):
    cut = bands(count, radius)
    assert cut.widths.sum() == 64 and cut.shifts[-1] + cut.widths[-1] == 64
    assert (cut.radii + 1).sum() == radius + 1


def test_more_hashes_ask_for_wider_bands():
    widths = [int(cheapest_bands(n, n, 8)[0].widths[0]) for n in (10**4, 10**6, 10**8)]
    assert widths == sorted(widths) and widths[0] < widths[-1]


def test_pairs_are_found_across_blocks():
    hashes = np.arange(2 * ROWS_AT_ONCE + 10, dtype=np.uint64) << np.uint64(20)
    places = [0, 5, ROWS_AT_ONCE - 1, ROWS_AT_ONCE, ROWS_AT_ONCE + 9, len(hashes) - 1]
    hashes[places] = 7
    assert _rows(hamming_pairs(hashes, 0)) == list(combinations(places, 2))


@given(st.lists(st.integers(0, 2**256 - 1), min_size=1, max_size=4))
def test_hexadecimal_hashes_keep_every_bit(values):
    words = hashes_from_hex([f"{value:064x}" for value in values])
    assert words.shape == (len(values), 4)
    assert [sum(int(w) << 64 * (3 - place) for place, w in enumerate(row)) for row in words] == values
