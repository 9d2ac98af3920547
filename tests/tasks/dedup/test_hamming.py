"""All pairs within a Hamming radius: every one, once."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.dedup import hamming
from tasks.dedup.hamming import cheapest_bands, hamming_pairs, hashes_from_hex

HASHES = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 255), max_size=30)


def _expected(values: list[int], radius: int) -> list[tuple[int, int]]:
    pairs = [(i, j) for i in range(len(values)) for j in range(i + 1, len(values))]
    return [(i, j) for i, j in pairs if (values[i] ^ values[j]).bit_count() <= radius]


def _rows(pairs) -> list[tuple[int, int]]:
    return list(map(tuple, pairs.tolist()))


@pytest.fixture
def banded(monkeypatch):
    """As for many hashes: a cut of the given number of bands, whatever the number of hashes."""
    return lambda count: monkeypatch.setattr(
        hamming, "cheapest_bands", lambda total, fresh, radius: hamming._equal_bands(count, radius)
    )


@settings(max_examples=60)
@given(HASHES, st.integers(0, 64), st.data())
def test_every_pair_with_a_fresh_row_is_found_once_in_order(values, radius, data):
    fresh = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    hashes = np.array(values, np.uint64)
    assert _rows(hamming_pairs(hashes, radius)) == _expected(values, radius)
    expected = [(i, j) for i, j in _expected(values, radius) if fresh[i] or fresh[j]]
    assert _rows(hamming_pairs(hashes, radius, np.array(fresh, np.bool_))) == expected


@pytest.mark.parametrize("count", [4, 5, 9, 16])
@pytest.mark.parametrize("radius", [0, 3, 8])
def test_every_cut_finds_the_same_pairs(banded, count, radius):
    generator = np.random.default_rng(count)
    values = [int(v) for v in generator.integers(0, 2**64, 40, dtype=np.uint64)]
    values += [v ^ int(generator.integers(0, 2**12)) << int(generator.integers(0, 50)) for v in values]
    fresh = generator.random(len(values)) < 0.4
    banded(count)
    assert _rows(hamming_pairs(np.array(values, np.uint64), radius)) == _expected(values, radius)
    expected = [(i, j) for i, j in _expected(values, radius) if fresh[i] or fresh[j]]
    assert _rows(hamming_pairs(np.array(values, np.uint64), radius, fresh)) == expected


def _clustered(n: int) -> np.ndarray:
    """Hashes as skewed as those of screenshots: a few centres, most of their bits in common, many exactly equal."""
    generator = np.random.default_rng(0)
    centres = generator.integers(0, 2**64, 20, dtype=np.uint64) & np.uint64(0x00FF00FF0000FFFF)
    flips = np.uint64(1) << generator.integers(0, 64, (n, 6)).astype(np.uint64)
    return centres[generator.integers(0, 20, n)] ^ np.bitwise_xor.reduce(flips, axis=1) * (np.arange(n) % 3 > 0)


def test_more_pairs_than_hashes_are_all_found():
    hashes = _clustered(2000)
    i, j = np.nonzero(np.triu(np.bitwise_count(hashes[:, None] ^ hashes[None, :]) <= 8, 1))
    assert len(i) > 10 * len(hashes)
    assert np.array_equal(hamming_pairs(hashes, 8), np.stack([i, j], axis=1))


@given(st.integers(0, 63), st.integers(3, 16))
def test_bands_cover_all_bits_and_leave_no_pair_out(radius, count):
    bands = hamming._equal_bands(count, radius)
    assert sum(band.width for band in bands) == 64 and bands[-1].first + bands[-1].width == 64
    assert sum(band.radius + 1 for band in bands) == radius + 1


def test_more_hashes_get_wider_bands_and_a_wide_radius_compares_all_with_all():
    widths = [cheapest_bands(n, n, 8)[0].width for n in (10**2, 10**4, 10**6, 10**7)]
    assert widths == sorted(widths) and widths[0] < widths[-1] <= 24
    assert [band.width for band in cheapest_bands(1000, 1000, 40)] == [0]


@pytest.mark.parametrize(("shape", "radius"), [((3, 1), 8), ((3,), 65), ((3,), -1)])
def test_bad_shapes_and_radii_are_refused_before_compiled_code_runs(shape, radius):
    with pytest.raises(ValueError, match="give shape"):
        hamming_pairs(np.zeros(shape, np.uint64), radius)


def test_compiled_code_stays_within_its_arrays():
    """numba's own bounds checks, on bands of every kind."""
    code = (
        "import numpy as np; from tasks.dedup.hamming import hamming_pairs\n"
        "h = np.random.default_rng(0).integers(0, 2**64, 3000, dtype=np.uint64); h[::3] = h[0]\n"
        "for n, radius in ((0, 8), (1, 8), (50, 40), (3000, 0), (3000, 8)):\n"
        "    hamming_pairs(h[:n], radius); hamming_pairs(h[:n], radius, np.arange(n) % 7 == 0)"
    )
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": ""}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


def test_an_install_that_cannot_be_written_still_works(monkeypatch):
    def njit(**options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(hamming.numba, "njit", njit)
    assert hamming.compiled(len)([1, 2]) == 2


@given(st.lists(st.integers(0, 2**256 - 1), min_size=1, max_size=4))
def test_hexadecimal_hashes_keep_every_bit(values):
    words = hashes_from_hex([f"{value:064x}" for value in values])
    assert words.shape == (len(values), 4)
    assert [sum(int(w) << 64 * (3 - place) for place, w in enumerate(row)) for row in words] == values
