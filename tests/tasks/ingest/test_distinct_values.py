"""Equal values are found whatever their length and wherever they stand."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.ingest.distinct_values import distinct

values = st.binary(max_size=3) | st.builds(lambda size, last: b"a" * size + last, st.integers(0, 70), st.binary())


@settings(max_examples=200)
@given(many=st.lists(values | st.sampled_from([b"", b"a" * 33, b"a" * 32 + b"b"]), max_size=60))
def test_every_value_is_known_by_its_first(many):
    ends = np.cumsum([0, *map(len, many)])
    spans = np.stack([ends[:-1], ends[1:]], axis=1)
    codes, firsts = distinct(np.frombuffer(b"".join(many), np.uint8), spans)
    seen = list(dict.fromkeys(many))
    assert codes.tolist() == [seen.index(value) for value in many]
    assert firsts.tolist() == [many.index(value) for value in seen]


def test_values_that_are_not_there_are_one_value_and_an_empty_one_is_the_same():
    codes, firsts = distinct(np.frombuffer(b"ab", np.uint8), np.array([[0, 1], [-1, -1], [1, 1], [-1, -1]]))
    assert (codes.tolist(), firsts.tolist()) == ([0, 1, 1, 1], [0, 1])
