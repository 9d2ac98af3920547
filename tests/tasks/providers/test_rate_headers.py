"""A service says how much it still takes, and is asked no faster."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("openai", reason="production extra")
from tasks.providers.production.language_model import Question
from tasks.providers.production.openai_api import OpenAiApi
from tasks.providers.production.pace import Pace
from tasks.providers.production.rate_headers import room, span_seconds
from tasks.providers.production.topic_names import TopicName


def headers(limit, left, reset, what="requests"):
    names = ("limit", "remaining", "reset")
    values = zip(names, (limit, left, reset), strict=True)
    return {f"x-ratelimit-{name}-{what}": str(value) for name, value in values}


@pytest.mark.parametrize(
    ("text", "seconds"), [("6m0s", 360), ("120ms", 0.12), ("1s", 1), ("1h2m3.5s", 3723.5), ("2", 2), ("0s", 0)]
)
def test_a_span_is_read_as_openai_writes_it(text, seconds):
    assert span_seconds(text) == pytest.approx(seconds)


@given(st.text(max_size=12))
def test_no_header_breaks_us(text):
    said = room(headers("10", "5", text), 3)
    assert said is None or said.calls == 5


def test_the_tighter_limit_counts():
    both = headers(100, 60, "20s") | headers(10_000, 1000, "9s", "tokens")
    assert room(both, 500) == (2, pytest.approx(0.5))
    assert room(both, None) == (60, pytest.approx(0.5))
    assert room({}, 500) is None


def test_without_room_calls_follow_each_other_at_the_pace_of_the_service():
    pace = Pace(8)
    begin = time.monotonic()
    for _ in range(6):
        pace.call(lambda: pace.heard(0, 0.1))
    assert 0.4 <= time.monotonic() - begin < 3


def test_with_room_nothing_waits():
    pace = Pace(8)
    begin = time.monotonic()
    for _ in range(50):
        pace.call(lambda: pace.heard(100, 1.0))
    assert time.monotonic() - begin < 1


def test_calls_grow_fast_until_the_first_rate_limit():
    pace = Pace(32, first=8)
    for expected in (9, 10, 11):
        pace.call(lambda: None)
        assert pace.calls_at_once == expected


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
def test_the_headers_of_an_answer_set_the_pace(vendor, http_server, reply, quick):
    http_server.answer(reply(vendor.completed('{"name": "a"}'), 200, headers(10, 0, "1s")))
    model, begin = OpenAiApi(quick), time.monotonic()
    for _ in range(5):
        assert model.ask(Question("Name it.", "x"), TopicName) == TopicName(name="a")
    assert time.monotonic() - begin >= 0.3
