"""A night searches for its new images only, and the table is the one a single search would give."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.policy import NearImages
from tasks.dedup.near_images import update_near_images
from tasks.storage.tables import Store
from tests.builders import VERSIONS, facts_frame

RADIUS = NearImages()
GREY = bytes(range(256)).hex() * 4
IDS = [f"{number:032x}" for number in range(12)]


def _hold(store: Store, images: dict[str, int]) -> None:
    """These images, each with the given bits in both hashes, are what the store holds."""
    hashes = {name: {"phash": f"{bits:016x}", "pdq": f"{bits:064x}", "grey": GREY} for name, bits in images.items()}
    store.replace("signals/image_hash", facts_frame("image_hash", hashes))


def _pairs(store: Store) -> list[tuple[str, str]]:
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


def test_only_new_images_are_searched_for(store):
    assert _searched(store) == 3
    assert _searched(store) == 0
    _hold(store, {IDS[0]: 0, IDS[1]: 1, IDS[2]: 2**40 - 1, IDS[3]: 3})
    assert _searched(store) == 1
    assert _pairs(store) == [(IDS[0], IDS[1]), (IDS[0], IDS[3]), (IDS[1], IDS[3])]


def test_another_radius_searches_everything_again(store):
    _searched(store)
    assert _searched(store, NearImages(phash_distance_max=0)) == 3
    assert _pairs(store) == []


def test_an_image_that_is_gone_takes_its_pairs_with_it(store):
    _searched(store)
    _hold(store, {IDS[0]: 0, IDS[2]: 2**40 - 1})
    assert _searched(store) == 0
    assert _pairs(store) == []
    assert store.read("searched_images")["image_id"].to_list() == [IDS[0], IDS[2]]


def test_a_search_killed_between_its_two_tables_is_made_again(store):
    _searched(store)
    store.replace("searched_images", store.empty("searched_images"))
    store.replace("near_images", store.empty("near_images"))
    assert _searched(store) == 3
    assert _pairs(store) == [(IDS[0], IDS[1])]
