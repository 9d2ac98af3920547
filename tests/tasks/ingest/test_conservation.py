"""Every line ends in exactly one place, whatever is in it."""

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.ingest.log_line import Place
from tasks.ingest.read_logs import LogContent
from tasks.storage.keyed_ids import Pseudonyms
from tests.tasks.ingest.logs import chat, image_name, line, state, vote

GOOD = [
    chat("a", images=[image_name("p")]),
    chat("b", beside=[image_name("q")]),
    chat("c", has_csam_image=False),
    vote("a", "b"),
    vote(state("c"), state("d"), models=["### Model A: model-x", "### Model B: model-x"]),
]

odd_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300)
@given(record=st.sampled_from(GOOD), damage=st.data())
def test_a_mutated_line_never_raises_and_is_always_counted(record, damage):
    record = orjson.loads(line(record))
    if damage.draw(st.booleans(), "cut bytes out or put bytes in"):
        raw = bytearray(line(record))
        start = damage.draw(st.integers(0, len(raw)))
        raw[start : start + damage.draw(st.integers(0, 30))] = damage.draw(st.binary(max_size=10))
        raw = bytes(raw).replace(b"\n", b"")
    else:
        raw = line(_with_another_value(record, damage))
    _assert_counted(raw)


def _with_another_value(record, damage):
    """The record with one value, anywhere in it, replaced by something else."""
    place = record
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return record
        key = damage.draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and damage.draw(st.booleans()):
            place = place[key]
            continue
        place[key] = damage.draw(odd_json.filter(lambda value: value == value))
        return record


def _assert_counted(raw: bytes) -> LogContent:
    content = LogContent()
    content.add_line(raw, Place("log", 2), False, Pseudonyms(b"k" * 16), {})
    lines = {seen.line for seen in content.sightings} | {row.line for row in content.rejects}
    assert content.line_count == 1 and lines == {2}
    assert not (content.sightings and content.rejects)
    return content
