"""Content ids depend on the content alone; people are keyed hashes, whose addresses are nowhere after ingest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from schemas.errors import BadInput
from tasks.storage.content_id import combined_id, image_id, text_id
from tasks.storage.keyed_ids import KEY_VARIABLE, Pseudonyms, store_key
from tasks.storage.tables import Store
from tests.tasks.ingest.logs import DAY, chat, ingested, line, vote, write

ADDRESSES = ["203.0.113.77", "2001:db8::dead:beef", "198.51.100.3"]


@pytest.fixture
def logs(tmp_path):
    broken = line(chat("d", ip=ADDRESSES[0]))[:-2]
    odd = chat("e", ip=ADDRESSES[2]) | {"tstamp": ADDRESSES[2]}
    write(tmp_path / "logs", DAY, chat("a", ip=ADDRESSES[0]), chat("b", ip=ADDRESSES[1]), broken, odd)
    write(
        tmp_path / "logs",
        "2024-06-21-conv.json",
        vote("x", "y", ip=ADDRESSES[0]),
        chat("c", ip=None),
        chat("f", ip=" "),
    )
    return tmp_path / "logs"


def test_no_address_is_left_in_any_file_of_the_store_or_on_the_screen(logs, tmp_path, capsys):
    store = ingested(logs, tmp_path / "store")
    said = "".join(capsys.readouterr())
    tables = "".join(
        str(store.read(t).to_dicts()) for t in ("sightings", "conversations", "battles", "rejects", "log_files")
    )
    files = b"".join(path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())
    for address in ADDRESSES:
        assert address not in said and address not in tables
        assert address.encode() not in files


def test_one_person_has_one_id_across_files_runs_and_roles(logs, tmp_path):
    store = ingested(logs, tmp_path / "store")
    users = dict(store.read("sightings").select("conv_id", "user_id").iter_rows())
    again = dict(ingested(logs, tmp_path / "store").read("sightings").select("conv_id", "user_id").iter_rows())
    assert users == again
    (judge,) = store.read("battles")["judge"]
    assert len({name for name in users.values() if name}) == 2
    assert judge in users.values()
    assert list(users.values()).count(None) == 2


def test_another_key_gives_other_ids_so_they_cannot_be_enumerated():
    one, two = Pseudonyms(b"a" * 16), Pseudonyms(b"b" * 16)
    assert one.user_id(ADDRESSES[0]) != two.user_id(ADDRESSES[0])
    assert one.user_id(ADDRESSES[0]) == one.user_id(f" {ADDRESSES[0]} ") != one.user_id(ADDRESSES[1])


@pytest.mark.parametrize("address", [None, "", "  ", 7, ["203.0.113.7"]])
def test_no_address_is_no_person(address):
    assert Pseudonyms(b"a" * 16).user_id(address) is None


def test_the_key_is_kept_in_the_store_for_its_owner_alone(tmp_path):
    store = Store.open(str(tmp_path))
    assert store_key(store) == store_key(store)
    assert (tmp_path / "secret" / "user_key").stat().st_mode & 0o077 == 0
    assert (tmp_path / "secret").stat().st_mode & 0o077 == 0


def test_a_key_from_the_environment_is_not_written_down(tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "correct horse battery staple")
    store_key(Store.open(str(tmp_path)))
    assert b"correct horse" not in b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())


def test_a_store_of_a_key_from_the_environment_is_not_given_another(tmp_path, monkeypatch):
    store = Store.open(str(tmp_path))
    monkeypatch.setenv(KEY_VARIABLE, "correct horse battery staple")
    store_key(store)
    monkeypatch.delenv(KEY_VARIABLE)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BadInput, match=f"was started with is not in it; set {KEY_VARIABLE} as before"):
        store_key(store)
    assert sorted(tmp_path.rglob("*")) == before


def test_another_key_than_before_is_refused_because_people_would_get_two_ids(tmp_path, monkeypatch):
    store = Store.open(str(tmp_path))
    store_key(store)
    monkeypatch.setenv(KEY_VARIABLE, "correct horse battery staple")
    with pytest.raises(BadInput, match="differs from the one this store was started with"):
        store_key(store)
    monkeypatch.setenv(KEY_VARIABLE, "short")
    with pytest.raises(BadInput, match="5 bytes; give at least 16") as told:
        store_key(Store.open(str(tmp_path / "other")))
    assert "short" not in str(told.value).replace("shorter", "")


texts = st.text(alphabet=st.characters(), max_size=20)


@given(texts, texts)
def test_two_texts_share_an_id_only_if_they_are_equal(a, b):
    assert (text_id(a) == text_id(b)) == (a == b)


@given(st.lists(texts, max_size=4), st.lists(texts, max_size=4))
def test_parts_cannot_be_moved_across_a_boundary(a, b):
    assert (combined_id("document", a) == combined_id("document", b)) == (a == b)


@given(hnp.arrays(np.uint8, st.tuples(st.integers(1, 4), st.integers(1, 4), st.just(3))))
def test_the_same_pixels_in_another_shape_are_another_image(pixels):
    height, width, _ = pixels.shape
    turned = pixels.reshape(width, height, 3)
    assert (image_id(pixels) == image_id(turned)) == (height == width)


def test_kinds_of_ids_differ_and_never_change_between_versions_or_layouts_of_memory():
    """Stored facts are keyed by these; another value would orphan every one of them."""
    assert text_id("What is this?") == "ca4d6d8ba1211203d7e10974fde1e33c"
    assert image_id(np.arange(12, dtype=np.uint8).reshape(2, 2, 3)) == "2d5db7149a67c5b778705c13db42bdf7"
    assert combined_id("document", ["a", "b"]) == "de61ad39cc53f629f45b25848ca5f69b"
    ids = [text_id("aaa"), combined_id("document", ["aaa"]), combined_id("opening", ["aaa"])]
    assert len({*ids, image_id(np.full((1, 1, 3), ord("a"), np.uint8))}) == 4
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    assert image_id(np.asfortranarray(pixels)) == image_id(pixels)
