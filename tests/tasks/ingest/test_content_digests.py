"""Ids that are found for many items at once are those of `tasks.content_id`."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.content_id import combined_id, text_id
from tasks.ingest.content_digests import digests, text_ids

texts = st.text(st.characters(codec="utf-8"), max_size=20) | st.builds(
    lambda size, letter: letter * size, st.integers(0, 600), st.sampled_from(["x", "é", "😀"])
)


@settings(max_examples=100)
@given(said=st.lists(texts, max_size=8), start=st.integers(0, 8))
def test_the_ids_of_many_texts_are_those_of_each(said, start):
    assert text_ids(pa.array(said, pa.string()).slice(start)).to_pylist() == list(map(text_id, said[start:]))


@settings(max_examples=100)
@given(items=st.lists(st.lists(texts, max_size=4), max_size=5))
def test_the_ids_of_many_items_are_those_of_their_parts_together(items):
    parts = pa.array([part for item in items for part in item], pa.string())
    found = digests(b"document", np.array([len(item) for item in items], np.int64), parts)
    assert found.to_pylist() == [combined_id("document", item) for item in items]


@pytest.mark.parametrize("block", [1, 2, 5])
def test_texts_that_end_at_about_the_end_of_a_block_have_their_own_ids(block):
    said = ["x" * size for size in range(128 * block - 40, 128 * block + 20)]  # 20 bytes stand before a text
    assert text_ids(pa.array(said)).to_pylist() == list(map(text_id, said))


def test_a_text_that_is_not_there_has_the_id_of_an_empty_one():
    assert text_ids(pa.array([None, "", "a"])).to_pylist() == [text_id(""), text_id(""), text_id("a")]
