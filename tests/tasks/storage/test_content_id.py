"""Content ids depend on the content alone; sets of them hold what was added."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tasks.storage.content_id import Distinct, combined_id, image_id, text_id

texts = st.text(alphabet=st.characters(), max_size=20)


@given(texts, texts)
def test_two_texts_share_an_id_only_if_they_are_equal(a, b):
    assert (text_id(a) == text_id(b)) == (a == b)


@given(st.lists(texts, max_size=4), st.lists(texts, max_size=4))
def test_parts_cannot_be_moved_across_a_boundary(a, b):
    assert (combined_id("document", a) == combined_id("document", b)) == (a == b)


def test_equal_bytes_of_different_kinds_have_different_ids():
    ids = [text_id("aaa"), combined_id("document", ["aaa"]), combined_id("opening", ["aaa"])]
    assert len({*ids, image_id(np.full((1, 1, 3), ord("a"), np.uint8))}) == 4


@given(hnp.arrays(np.uint8, st.tuples(st.integers(1, 4), st.integers(1, 4), st.just(3))))
def test_the_same_pixels_in_another_shape_are_another_image(pixels):
    height, width, _ = pixels.shape
    turned = pixels.reshape(width, height, 3)
    assert (image_id(pixels) == image_id(turned)) == (height == width)


def test_the_memory_layout_of_pixels_does_not_matter():
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    assert image_id(np.asfortranarray(pixels)) == image_id(pixels)


def test_ids_never_change_between_versions():
    """Stored facts are keyed by these; another value would orphan every one of them."""
    assert text_id("What is this?") == "ca4d6d8ba1211203d7e10974fde1e33c"
    assert image_id(np.arange(12, dtype=np.uint8).reshape(2, 2, 3)) == "2d5db7149a67c5b778705c13db42bdf7"
    assert combined_id("document", ["a", "b"]) == "de61ad39cc53f629f45b25848ca5f69b"


def of(*ids: str | None) -> Distinct:
    made = Distinct(7)
    made.add(pl.Series(ids, dtype=pl.String))
    return made


def test_it_holds_what_was_added_in_however_many_shares():
    made = Distinct(7)
    for start in range(0, 600_000, 50_000):
        made.add(pl.Series([f"{number:032x}" for number in range(start, start + 50_000)]))
    asked = pl.Series([f"{number:032x}" for number in range(599_000, 601_000)])
    assert made.has(asked).to_list() == [True] * 1000 + [False] * 1000
    assert sum(part.nbytes for part in made._parts) == 8 * 600_000


@pytest.mark.parametrize("ids", [(), ("a",)])
def test_null_is_never_in_it(ids):
    rows = pl.DataFrame({"id": [None, "a"]}, schema={"id": pl.String})
    assert rows.select(of(*ids, None).hold(pl.col("id")))["id"].to_list() == [False, "a" in ids]


def test_of_lists_all_must_be_in_it():
    rows = pl.DataFrame({"ids": [["a", "b"], ["a", "c"], []]}, schema={"ids": pl.List(pl.String)})
    assert rows.select(of("a", "b").hold_all(pl.col("ids")))["ids"].to_list() == [True, False, True]
