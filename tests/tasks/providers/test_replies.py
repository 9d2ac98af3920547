"""How answers end, are refused and fail: every vendor's protocol with the words of all, drawn by rule."""

import json
import random

import pytest

from schemas.asked_model import AskedModel
from schemas.run import SETUP_FAILURES, in_words
from tasks.providers.capabilities import ChatMessage, Failed, Reply
from tasks.providers.chat import chat_model
from tests.places import DATA, needs_data
from tests.tasks.providers.conftest import _gemini, _openai, anthropic_vendor

pytest.importorskip("tenacity", reason="production extra")

VENDORS = {"openai": _openai, "gemini": _gemini, "anthropic": anthropic_vendor}
ASKED = [ChatMessage("user", "What is this?")]
TEXT = "The chart shows four harbours and their catch."
ENDS = {
    "complete": ("stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete", None),
    "truncated": ("length", "max_tokens", "model_length", "max_output_tokens", "model_context_window_exceeded"),
    "refused": ("content_filter", "refusal", "safety", "prohibited_content", "image_safety", "guardrail_intervened"),
}
ACCIDENTS = (
    "malformed_function_call", "unexpected_tool_call", "too_many_tool_calls", "finish_reason_unspecified", "other",
    "language", "malformed_response", "missing_thought_signature", "something_new", "pause_turn", "error", "abort",
)  # fmt: skip
UNNAMED = ("a reason of several words; and more", "x" * 50, "ünfinished")

pytestmark = [
    pytest.mark.usefixtures("short_waits"),
    pytest.mark.filterwarnings("ignore:.* is not a valid FinishReason"),
]


@pytest.fixture(params=VENDORS)
def vendor(request):
    pytest.importorskip("google.genai" if request.param == "gemini" else request.param)
    return VENDORS[request.param]()


@pytest.fixture
def say(vendor, http_server, reply, monkeypatch):
    """Asks once for each body, or whole reply; the outcomes, and how many requests they took."""
    monkeypatch.setenv(vendor.key, "test-key")
    name = vendor.key.removesuffix("_API_KEY").lower()
    address = f"{http_server.url}/v1" if name == "openai" else http_server.url
    model = chat_model(AskedModel(name="m", vendor=name, model="m-1", base_url=address))

    def say(*replies):
        before = len(http_server.requests)
        http_server.answer(*(each if isinstance(each, reply) else reply(each) for each in replies))
        outcomes = []
        while len(http_server.requests) - before < len(replies):
            outcomes.append(model.chat(ASKED))
        return outcomes

    return say


def spelled(word, rng):
    """The word as some other server would write it."""
    if word is None:
        return None
    word = rng.choice([word, word.replace("_", "-"), word.replace("_", " ")])
    return rng.choice([str.lower, str.upper, str.title])(word)


def test_one_reason_means_the_same_whoever_gives_it_and_in_any_spelling(vendor, say):
    rng = random.Random(5)
    drawn = [(state, spelled(word, rng)) for state, words in ENDS.items() for word in words for _ in range(3)]
    outcomes = say(*(vendor.completed(TEXT, word) for _, word in drawn))
    assert outcomes == [Reply(TEXT, state) for state, _ in drawn]


def test_any_other_reason_is_a_failure_of_its_name_and_never_a_refusal(vendor, say):
    named = say(*(vendor.completed(TEXT, word.upper()) for word in ACCIDENTS))
    assert named == [Failed(f"unfinished_answer ({word})") for word in ACCIDENTS]
    assert say(*(vendor.completed(TEXT, word) for word in UNNAMED)) == [Failed("unfinished_answer")] * len(UNNAMED)
    assert say(vendor.completed(" ", None), vendor.completed(None, None)) == [Failed("unfinished_answer")] * 2


def test_thinking_at_the_head_is_no_part_of_an_answer_and_a_tag_within_it_stays(vendor, say):
    thought = ("<think>[[A>B]] or so\n</think>\n\n", "<thinking>Hm.</thinking>", "Hm, let me see.\n</think>\n")
    assert say(*(vendor.completed(f"{head}{TEXT}") for head in thought)) == [Reply(TEXT, "complete")] * 3
    about = "Write `<think>` before it, and `</think>` after it."
    outcomes = say(vendor.completed("<think>For ever"), vendor.completed(about))
    assert outcomes == [Reply("", "empty"), Reply(about, "complete")]


BLOCKED = [
    (400, {"error": {"message": "The response was filtered", "param": "prompt", "code": "content_filter"}}),
    (400, {"error": {"code": None, "innererror": {"code": "ResponsibleAIPolicyViolation"}, "message": "m"}}),
    (400, {"error": {"message": "litellm.ContentPolicyViolationError: AzureException", "code": "400"}}),
    (400, {"error": {"message": "Invalid prompt", "type": "invalid_request_error", "code": "invalid_prompt"}}),
    (400, {"error": {"message": "quotes", "type": "image_generation_user_error", "code": "moderation_blocked"}}),
    (400, {"error": {"message": "m", "code": "DataInspectionFailed"}}),
    (400, {"error": {"message": "Content Exists Risk", "type": "invalid_request_error"}}),
    (400, {"detail": "Content Exists Risk"}),
    (403, {"code": "permission-denied", "error": "Content violates usage guidelines. "}),
    (403, {"error": {"code": 403, "message": "m", "metadata": {"reasons": ["violence"], "flagged_input": "What"}}}),
    (
        400,
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "Output blocked by content filtering policy"},
        },
    ),
]
"""Errors as OpenAI, Azure, LiteLLM, Alibaba, DeepSeek, xAI, OpenRouter and Anthropic are reported to give them."""


def test_content_that_is_blocked_is_refused_and_an_error_that_quotes_its_words_is_none(say, reply):
    assert say(*(reply(body, status) for status, body in BLOCKED)) == [Reply("", "refused")] * len(BLOCKED)
    quotes = {"error": {"message": 'no model for "code": "content_filter"', "type": "invalid_request_error"}}
    assert say(reply(quotes, 400), reply({"error": {"message": "no", "code": 403}}, 403)) == [
        Failed("http_400"),
        Failed("http_403"),
    ]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"code": 503, "message": "busy"}, "server_error"),
        ({"code": "502", "message": "busy"}, "server_error"),
        ({"type": "overloaded_error", "message": "Overloaded"}, "server_error"),
        ({"status": "UNAVAILABLE"}, "server_error"),
        ({"code": 429, "message": "slow"}, "rate_limited"),
        ({"code": "rate_limit_exceeded"}, "rate_limited"),
    ],
)
def test_an_error_in_a_body_with_status_200_is_asked_again_as_its_code_says(vendor, say, http_server, error, reason):
    body = {"type": "error", "error": error}
    assert say(body, body, vendor.completed(TEXT)) == [Reply(TEXT, "complete")]
    assert say(*[body] * 5) == [Failed(reason)]


def test_an_error_in_a_body_that_no_repetition_mends_is_not_asked_again(say):
    codes = {401: "http_401", "insufficient_quota": "quota_used_up", "content_filter": Reply("", "refused"), None: ""}
    outcomes = say(*({"error": {"code": code, "type": "x"}} for code in codes))
    expected = [reason or "malformed_answer" for reason in codes.values()]
    assert outcomes == [each if isinstance(each, Reply) else Failed(each) for each in expected]


def test_a_temperature_that_a_model_refuses_names_its_setting(say, reply):
    told = (
        {"message": "Unsupported value: 'temperature' does not support 0", "param": "temperature"},
        {"type": "invalid_request_error", "message": "`temperature` is deprecated for this model."},
        {
            "code": 400,
            "status": "INVALID_ARGUMENT",
            "message": "it has a temperature value of 3 but the range is 0 to 2",
        },
    )
    outcomes = say(*(reply({"error": error}, 400) for error in told))
    assert outcomes == [Failed("temperature_refused")] * 3
    assert "`temperature`" in in_words("temperature_refused") and "temperature_refused" in SETUP_FAILURES
    other = {"message": "bad image", "input": {"temperature": 0, "text": "the temperature"}}
    assert say(reply({"error": other}, 400)) == [Failed("http_400")]


PARTS = {
    "text": [{"type": "text", "text": TEXT[:9]}, {"type": "text", "text": TEXT[9:]}],
    "strings": [TEXT[:9], TEXT[9:]],
    "output": [{"type": "output_text", "text": TEXT, "annotations": []}],
    "thinking": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "reasoning", "text": "Hm."},
        {"type": "text", "text": TEXT},
    ],
}


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
def test_content_as_a_list_of_parts_is_read_and_a_refusal_among_them_is_the_answer(vendor, say):
    assert say(*map(vendor.completed, PARTS.values())) == [Reply(TEXT, "complete")] * len(PARTS)
    refused = vendor.completed([{"type": "text", "text": "Well."}, {"type": "refusal", "refusal": "I will not."}])
    assert say(refused) == [Reply("I will not.", "refused")]
    odd = [[{"type": "image_url"}], [5], 5, {"text": TEXT}, [{"type": "text", "text": 5}]]
    assert say(*map(vendor.completed, odd)) == [Failed("malformed_answer")] * len(odd)


@pytest.mark.parametrize("vendor", ["openai", "anthropic"], indirect=True)
def test_a_call_of_a_tool_is_a_failure_of_its_name_and_one_of_none_a_whole_answer(vendor, say):
    bodies = []
    for calls in (None, [], [{"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}]):
        body = vendor.completed(TEXT, "tool_calls" if "choices" in vendor.completed(TEXT) else "tool_use")
        if "choices" in body:
            body["choices"][0]["message"]["tool_calls"] = calls
        elif calls:
            body["content"] += [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]
        bodies.append(body)
    name = "tool_calls" if "choices" in bodies[0] else "tool_use"
    assert say(*bodies) == [*[Reply(TEXT, "complete")] * 2, Failed(f"unfinished_answer ({name})")]


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
def test_an_error_of_the_server_behind_a_gateway_is_asked_again(vendor, say):
    body = vendor.completed("Half of", "error")
    body["choices"][0]["error"] = {"code": 502, "message": "lost"}
    assert say(body, vendor.completed(TEXT)) == [Reply(TEXT, "complete")]


@pytest.mark.parametrize("vendor", ["openai", "anthropic"], indirect=True)
def test_a_body_of_odd_shape_is_malformed(vendor, say):
    odd = [
        {"choices": ["a"]},
        {"choices": {"a": 1}},
        {"choices": [{}]},
        {"choices": [{"message": "a"}]},
        {"content": "a"},
    ]
    assert say(*odd) == [Failed("malformed_answer")] * len(odd)


@needs_data
@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
def test_the_replies_of_servers_that_people_reported_are_whole_or_cut_off(say):
    lines = (DATA / "public-reports" / "finish-reasons" / "replies.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    states = ["truncated" if row["name"] in ("max_tokens", "model_length") else "complete" for row in rows]
    assert [outcome.state for outcome in say(*(row["reply"] for row in rows))] == states
    assert {outcome.text for outcome in say(*(row["reply"] for row in rows))} == {TEXT}


@needs_data
@pytest.mark.parametrize("vendor", ["gemini"], indirect=True)
def test_a_reason_that_googles_package_does_not_know_is_named_and_no_refusal(say):
    replies = json.loads((DATA / "public-reports" / "gemini-new-finish-reason" / "replies.json").read_text())
    names = ("something_new", "malformed_function_call")
    assert say(*replies) == [Failed(f"unfinished_answer ({name})") for name in names]
