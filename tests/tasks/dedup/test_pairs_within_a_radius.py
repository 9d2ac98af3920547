"""All pairs within a radius, once: of hashes, and semantic ones that drop nothing unless a policy says so."""

import os
import subprocess
import sys
from datetime import timedelta

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.errors import BadPolicy
from schemas.items.image import RedactedImage
from schemas.policy import SemanticImages
from schemas.settings import Settings
from tasks.dedup import hamming
from tasks.dedup.hamming import cheapest_bands, hamming_pairs, hashes_from_hex
from tasks.dedup.near_images import update_semantic_images
from tasks.policy.policy_file import load_policy
from tasks.storage.tables import Store, frame_of
from tests.builders import NOON, VERSIONS, conversation, facts_frame, image

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


@settings(max_examples=25)
@given(HASHES, st.integers(0, 64), st.data())
def test_every_pair_with_a_fresh_row_is_found_once_in_order(values, radius, data):
    fresh = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    expected = [(i, j) for i, j in _expected(values, radius) if fresh[i] or fresh[j]]
    assert _rows(hamming_pairs(np.array(values, np.uint64), radius, np.array(fresh, np.bool_))) == expected


@settings(max_examples=25)
@given(HASHES, st.integers(0, 64))
def test_every_pair_is_found_once_in_order_where_no_row_is_called_fresh(values, radius):
    assert _rows(hamming_pairs(np.array(values, np.uint64), radius)) == _expected(values, radius)


@pytest.mark.parametrize("are_some_fresh", [False, True], ids=["all", "some fresh"])
@pytest.mark.parametrize("count", [4, 5, 9, 16])
@pytest.mark.parametrize("radius", [0, 3, 8])
def test_every_cut_finds_the_same_pairs(banded, count, radius, are_some_fresh):
    generator = np.random.default_rng(count)
    values = [int(v) for v in generator.integers(0, 2**64, 40, dtype=np.uint64)]
    values += [v ^ int(generator.integers(0, 2**12)) << int(generator.integers(0, 50)) for v in values]
    fresh = generator.random(len(values)) < 0.4 if are_some_fresh else np.ones(len(values), np.bool_)
    banded(count)
    expected = [(i, j) for i, j in _expected(values, radius) if fresh[i] or fresh[j]]
    pairs = hamming_pairs(np.array(values, np.uint64), radius, *([fresh] if are_some_fresh else []))
    assert _rows(pairs) == expected


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
def test_bands_cover_all_bits(radius, count):
    bands = hamming._equal_bands(count, radius)
    assert sum(band.width for band in bands) == 64 and bands[-1].first + bands[-1].width == 64


@given(st.integers(0, 63), st.integers(3, 16))
def test_bands_leave_no_pair_within_the_radius_out(radius, count):
    assert sum(band.radius + 1 for band in hamming._equal_bands(count, radius)) == radius + 1


def test_more_hashes_get_wider_bands():
    widths = [cheapest_bands(n, n, 8)[0].width for n in (10**2, 10**4, 10**6, 10**7)]
    assert widths == sorted(widths) and widths[0] < widths[-1] <= 24


def test_a_wide_radius_compares_all_hashes_with_all():
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

    monkeypatch.setattr(numba, "njit", njit)
    assert hamming.compiled(len)([1, 2]) == 2


@given(st.lists(st.integers(0, 2**256 - 1), min_size=1, max_size=4))
def test_hexadecimal_hashes_keep_every_bit(values):
    words = hashes_from_hex([f"{value:064x}" for value in values])
    assert words.shape == (len(values), 4)
    assert [sum(int(w) << 64 * (3 - place) for place, w in enumerate(row)) for row in words] == values


IDS = [f"{number:032x}" for number in range(9)]
RADIUS = SemanticImages(cosine_min=0.9)
THREADS = Settings(store="", workers=2)
TURNS = {name: 0.2 * place for place, name in enumerate(IDS)}
"""Each is 0.2 from the next: cosine 0.98 to its neighbour, 0.92 to the second, 0.83 to the third."""


def _vector(angle: float) -> dict[str, list[float]]:
    return {"vector": [float(np.cos(angle)), float(np.sin(angle))]}


def _hold(store: Store, names: set[str], version: str = "1") -> None:
    """The store holds these images, in two parts."""
    store.replace("signals/image_embedding", store.empty("signals/image_embedding"))
    for some in (sorted(names)[::2], sorted(names)[1::2]):
        store.append(
            "signals/image_embedding", facts_frame("image_embedding", {n: _vector(TURNS[n]) for n in some}, version)
        )


def _pairs(store: Store) -> list[tuple[str, str]]:
    return store.read("semantic_images").select("image_a", "image_b").rows()


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sets(st.sampled_from(IDS)), min_size=1, max_size=3))
def test_nights_give_the_table_that_one_search_gives(tmp_path_factory, monkeypatch, nights):
    monkeypatch.setattr("tasks.storage.queries.signals.VECTORS_A_BLOCK", 2)
    by_night, at_once = (Store.open(str(tmp_path_factory.mktemp("store"))) for _ in range(2))
    for names in nights:
        _hold(by_night, names)
        update_semantic_images(by_night, RADIUS, VERSIONS, THREADS)
    _hold(at_once, nights[-1])
    update_semantic_images(at_once, RADIUS, VERSIONS, THREADS)
    for table in ("semantic_images", "searched_vectors"):
        assert by_night.read(table).equals(at_once.read(table))
    names = sorted(nights[-1])
    near = [(a, b) for a in names for b in names if a < b and TURNS[b] - TURNS[a] < 0.45]
    assert _pairs(at_once) == near


@pytest.fixture
def store(tmp_path) -> Store:
    store = Store.open(str(tmp_path))
    _hold(store, set(IDS[:3]))
    return store


def _searched(store: Store, radius: SemanticImages | None = RADIUS, version: str = "1") -> int:
    return update_semantic_images(store, radius, VERSIONS | {"image_embedding": version}, THREADS)["semantic_searched"]


def test_images_that_were_searched_for_are_not_searched_for_again(store):
    assert [_searched(store), _searched(store)] == [3, 0]


def test_only_new_images_are_searched_for(store):
    _searched(store)
    _hold(store, set(IDS[:4]))
    assert _searched(store) == 1


def test_a_new_image_is_paired_with_those_that_were_searched_for_before(store):
    _searched(store)
    _hold(store, set(IDS[:4]))
    _searched(store)
    assert (IDS[2], IDS[3]) in _pairs(store)


def test_redacted_images_which_deciding_makes_are_near_nothing(store):
    store.append("signals/image_embedding", facts_frame("image_embedding", {IDS[3]: _vector(TURNS[IDS[3]])}))
    made = RedactedImage(**image().model_dump() | {"image_id": IDS[3]}, source_image_id=IDS[0], boxes=[])
    store.append("redacted_images", frame_of(RedactedImage, [made]))
    assert _searched(store) == 3
    assert not {IDS[3]} & {name for pair in _pairs(store) for name in pair}


@pytest.fixture
def of_another_model(store) -> Store:
    """The store after a search, with vectors of another model, by which no two are near."""
    _searched(store)
    _hold(store, {IDS[0], IDS[8]}, version="2")
    return store


def test_vectors_of_another_model_are_searched_anew(of_another_model):
    assert _searched(of_another_model, version="2") == 2


def test_pairs_of_another_model_are_forgotten(of_another_model):
    _searched(of_another_model, version="2")
    assert _pairs(of_another_model) == []


def test_without_a_radius_nothing_is_searched_for(store):
    _searched(store)
    assert _searched(store, None) == 0


def test_without_a_radius_earlier_pairs_are_forgotten(store):
    _searched(store)
    _searched(store, None)
    assert _pairs(store) == []


def _mirrored(deciding, images: str) -> dict:
    """Two chats with one question: an image, and its mirror image, whose embedding alone is near."""
    chats = [
        conversation("original", "What is this?", "A cat.", image_ids=[IDS[0]]),
        conversation("mirrored", "What is this?", "Cat.", image_ids=[IDS[1]], tstamp=NOON + timedelta(minutes=1)),
    ]
    deciding.given(chats, facts={"image_embedding": {name: _vector(TURNS[name]) for name in IDS[:2]}})
    decided = deciding.under(f"name: mine\nrules: []\nduplicates: {{images: {images}}}").decide()
    assert _pairs(deciding.store) == [(IDS[0], IDS[1])]
    return decided


def test_the_relation_of_semantic_images_alone_drops_nothing(deciding):
    assert all(row["keep"] for row in _mirrored(deciding, "near").values())


def test_a_policy_may_let_semantic_images_drop_repeats(deciding):
    decided = _mirrored(deciding, "semantic")
    assert (decided["mirrored"]["reasons"], decided["mirrored"]["duplicate_of"]) == (["duplicate"], "original")


def test_a_policy_that_lets_semantic_images_drop_needs_their_radius(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text("name: mine\nrules: []\nsemantic_images: null\nduplicates: {images: semantic}")
    with pytest.raises(BadPolicy, match="semantic_images"):
        load_policy(str(file))


def test_semantic_groups_are_no_chains(deciding):
    chats = [
        conversation(f"c{n}", "What is this?", f"{n}.", image_ids=[name], tstamp=NOON + timedelta(minutes=n))
        for n, name in enumerate(IDS[:7])
    ]
    deciding.given(chats, facts={"image_embedding": {name: _vector(TURNS[name]) for name in IDS[:7]}})
    decided = deciding.under("name: mine\nrules: []\nduplicates: {images: semantic}").decide()
    twins = {item: row["duplicate_of"] for item, row in decided.items() if row["duplicate_of"]}
    assert twins == {"c1": "c0", "c2": "c0", "c4": "c3", "c5": "c3"}
