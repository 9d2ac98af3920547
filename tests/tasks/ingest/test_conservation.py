"""Every line ends in exactly one place, whatever is in it."""

import random

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.reject import RejectReason
from tasks.ingest.log_line import Place
from tasks.ingest.read_logs import LogContent
from tasks.storage.keyed_ids import Pseudonyms
from tests.tasks.ingest.logs import DAY, chat, image_name, ingested, line, state, vote, write

KINDS = ("chat", "upvote", "downvote", "flag")
VOTES = ("leftvote", "rightvote", "tievote", "bothbad_vote", "share")
GOOD = [
    chat("a", images=[image_name("p")]),
    chat("b", beside=[image_name("q")]),
    chat("c", has_csam_image=False),
    vote("a", "b"),
    vote(state("c"), state("d"), models=["### Model A: model-x", "### Model B: model-x"]),
]

names = st.sampled_from("abcdef")
texts = st.lists(st.text(max_size=8), min_size=1, max_size=4)
times = st.integers(0, 200_000)
chats = st.builds(
    lambda name, said, at, kind: chat(name, *said, at=at, kind=kind), names, texts, times, st.sampled_from(KINDS)
)
votes = st.builds(
    lambda pair, kind, at: vote(*pair, kind, at=at),
    st.permutations("abcdef").map(lambda order: order[:2]),
    st.sampled_from(VOTES),
    times,
)
odd_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
broken = st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b" "))


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(files=st.lists(st.lists(chats | votes | broken, max_size=12), min_size=1, max_size=3))
def test_every_line_is_a_sighting_or_a_reject_and_every_conversation_has_its_line(tmp_path_factory, files):
    logs = tmp_path_factory.mktemp("logs")
    for number, records in enumerate(files):
        write(logs, f"2024-06-2{number}-conv.json", *records, end=b"\n" if records else b"")
    store = ingested(logs, logs / "store")
    put_in = {
        (f"2024-06-2{number}-conv.json", at + 1) for number, records in enumerate(files) for at in range(len(records))
    }
    seen = store.read("sightings").select("source", "line").unique()
    kept, lost = (
        set(seen.iter_rows()),
        list(store.read("rejects").drop_nulls("line").select("source", "line").iter_rows()),
    )
    assert len(lost) == len(set(lost))
    assert kept.isdisjoint(lost) and kept | set(lost) == put_in
    conversations = store.read("conversations")
    assert set(conversations.select("source", "line").iter_rows()) <= kept
    assert conversations["conversation_id"].is_unique().all()
    assert set(store.read("battles").select("source", "line").iter_rows()) <= kept
    assert sum(store.read("log_files")["lines"]) == len(put_in)


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


@pytest.mark.parametrize("seed", range(3))
def test_a_thousand_damaged_lines_of_every_kind_go_through_the_whole_of_ingest(tmp_path, seed):
    noise = random.Random(seed)
    damaged = []
    for _ in range(1000):
        raw = bytearray(line(noise.choice(GOOD)))
        for _ in range(noise.choice((0, 1, 3, 50))):
            raw[noise.randrange(len(raw))] = noise.choice(b'"{}[],:0\\ux\xff\x00 ')
        damaged.append(bytes(raw).replace(b"\n", b" "))
    write(tmp_path / "logs", DAY, *damaged)
    store = ingested(tmp_path / "logs", tmp_path / "store")
    kept = store.read("sightings")["line"].n_unique()
    assert kept + store.read("rejects").drop_nulls("line").height == 1000
    assert kept > 100
    assert set(store.read("rejects")["reason"]) <= set(RejectReason)
