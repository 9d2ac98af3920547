"""Content ids depend on the content alone; people are keyed hashes, whose addresses are nowhere after ingest."""

from pathlib import Path

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


def _write_logs(folder: Path) -> Path:
    broken = line(chat("d", ip=ADDRESSES[0]))[:-2]
    odd = chat("e", ip=ADDRESSES[2]) | {"tstamp": ADDRESSES[2]}
    write(folder / "logs", DAY, chat("a", ip=ADDRESSES[0]), chat("b", ip=ADDRESSES[1]), broken, odd)
    write(
        folder / "logs",
        "2024-06-21-conv.json",
        vote("x", "y", ip=ADDRESSES[0]),
        chat("c", ip=None),
        chat("f", ip=" "),
    )
    return folder / "logs"


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    """A store of logs in which people, one of them as a voter too, have addresses. Do not write to it."""
    folder = tmp_path_factory.mktemp("ids")
    return ingested(_write_logs(folder), folder / "store")


def _users(store: Store) -> dict[str, str | None]:
    return dict(store.read("sightings").select("conv_id", "user_id").iter_rows())


def test_no_address_is_shown_on_the_screen(tmp_path, capsys):
    ingested(_write_logs(tmp_path), tmp_path / "store")
    printed = "".join(capsys.readouterr())
    assert [address for address in ADDRESSES if address in printed] == []


def test_no_address_is_left_in_any_table(store):
    tables = "".join(
        str(store.read(t).to_dicts()) for t in ("sightings", "conversations", "battles", "rejects", "log_files")
    )
    assert [address for address in ADDRESSES if address in tables] == []


def test_no_address_is_left_in_any_file_of_the_store(store):
    files = b"".join(path.read_bytes() for path in Path(store.root).rglob("*") if path.is_file())
    assert [address for address in ADDRESSES if address.encode() in files] == []


def test_one_person_has_one_id_in_all_runs(tmp_path):
    logs = _write_logs(tmp_path)
    first = _users(ingested(logs, tmp_path / "store"))
    assert _users(ingested(logs, tmp_path / "store")) == first


def test_one_person_has_one_id_in_all_files(store):
    assert len({name for name in _users(store).values() if name}) == 2


def test_one_person_has_one_id_in_all_roles(store):
    (judge,) = store.read("battles")["judge"]
    assert judge in _users(store).values()


def test_who_has_no_address_has_no_id(store):
    assert list(_users(store).values()).count(None) == 2


def test_another_key_gives_other_ids_so_they_cannot_be_enumerated():
    one, two = Pseudonyms(b"a" * 16), Pseudonyms(b"b" * 16)
    assert one.user_id(ADDRESSES[0]) != two.user_id(ADDRESSES[0])


def test_blanks_around_an_address_make_no_other_person():
    pseudonyms = Pseudonyms(b"a" * 16)
    assert pseudonyms.user_id(ADDRESSES[0]) == pseudonyms.user_id(f" {ADDRESSES[0]} ")


def test_another_address_is_another_person():
    pseudonyms = Pseudonyms(b"a" * 16)
    assert pseudonyms.user_id(ADDRESSES[0]) != pseudonyms.user_id(ADDRESSES[1])


@pytest.mark.parametrize("address", [None, "", "  ", 7, ["203.0.113.7"]])
def test_no_address_is_no_person(address):
    assert Pseudonyms(b"a" * 16).user_id(address) is None


def test_the_key_of_a_store_stays_the_same(tmp_path):
    store = Store.open(str(tmp_path))
    assert store_key(store) == store_key(store)


def test_the_key_of_a_store_is_for_its_owner_alone(tmp_path):
    store_key(Store.open(str(tmp_path)))
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


def test_a_short_key_is_refused_without_being_quoted(tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "short")
    with pytest.raises(BadInput, match="5 bytes; give at least 16") as refused:
        store_key(Store.open(str(tmp_path)))
    assert "short" not in str(refused.value).replace("shorter", "")


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


def test_ids_never_change_between_versions():
    """Stored facts are keyed by these; another value would orphan every one of them."""
    assert text_id("What is this?") == "ca4d6d8ba1211203d7e10974fde1e33c"
    assert image_id(np.arange(12, dtype=np.uint8).reshape(2, 2, 3)) == "2d5db7149a67c5b778705c13db42bdf7"
    assert combined_id("document", ["a", "b"]) == "de61ad39cc53f629f45b25848ca5f69b"


def test_ids_of_the_same_content_differ_between_kinds():
    ids = [text_id("aaa"), combined_id("document", ["aaa"]), combined_id("opening", ["aaa"])]
    assert len({*ids, image_id(np.full((1, 1, 3), ord("a"), np.uint8))}) == 4


def test_the_id_of_an_image_does_not_depend_on_how_it_lies_in_memory():
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    assert image_id(np.asfortranarray(pixels)) == image_id(pixels)
