"""Topic names by a language model: a few plain words or a failure."""

import json

import pytest

from tasks.prompts import load_prompt
from tasks.providers.capabilities import Failed, TopicEvidence

pytest.importorskip("tenacity", reason="production extra")
from tasks.providers.production import labels

TOPIC = TopicEvidence(("chart", "axis", "trend"), ("What does this chart show?", "Read\nthe axis."))


@pytest.fixture
def name(vendor, http_server, quick, reply):
    def name(answer, topic=TOPIC):
        http_server.answer(reply(vendor.completed(json.dumps({"name": answer}))))
        return labels.TopicNames(vendor.model()).name_topics([topic])

    return name


@pytest.mark.parametrize(
    "good", ["Chart and Table Questions", "Children's Maths", "Dungeons & Dragons (RPG)", "UI/UX Review", "C++ Code"]
)
def test_plain_name_is_taken(name, good):
    assert name(f" {good} ") == [good]


@pytest.mark.parametrize(
    "bad",
    [
        "", "   ", "x" * 61, "Two\nLines", "Mail jo@example.org", "See https://example.org", "<b>Bold</b>",
        "Call 5551234567",
    ],
)  # fmt: skip
def test_name_that_could_carry_a_person_or_markup_is_a_failure(name, bad):
    assert name(bad) == [Failed("unusable_name")]


def test_evidence_is_fenced_and_one_request_a_line(name, vendor, http_server):
    name("Charts")
    asked = vendor.asked(http_server.requests[0]).split("\n")
    assert asked[0].startswith("[material ")
    assert asked[1:-1] == ["Words: chart, axis, trend", "Requests:", "- What does this chart show?", "- Read the axis."]
    assert vendor.told(http_server.requests[0]) == load_prompt("topic_name").text


def test_only_the_gist_of_what_people_wrote_is_sent(name, vendor, http_server):
    name("Charts", TopicEvidence(("w",) * 500, ("y" * 50_000,) * 500))
    assert len(vendor.asked(http_server.requests[0])) < 5_000


def test_refusal_leaves_a_topic_without_a_name(vendor, http_server, quick, reply):
    http_server.answer(reply(vendor.refused))
    assert labels.TopicNames(vendor.model()).name_topics([TOPIC, TOPIC]) == [Failed("refused")] * 2
