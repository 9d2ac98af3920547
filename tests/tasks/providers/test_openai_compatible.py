"""Self-hosted servers with chat completions and different response formats."""

import pytest

from tasks.providers.capabilities import Failed

pytest.importorskip("openai", reason="production extra")
from tasks.providers.production.labels import TopicName
from tasks.providers.production.language_model import Chat, Question, Turn, shape_of
from tasks.providers.production.openai.model import openai_model

SIGNS = TopicName(name="Street Signs")
JSON = '{"name": "Street Signs"}'
TEXT = f'So: {{"name"…</think>\n```json\n{JSON}\n```'
REFUSAL = {"error": {"message": "response_format.type 'json_schema' is not supported", "type": "invalid_request_error"}}


@pytest.fixture
def asks(vendor, http_server, short_waits, reply):
    """Ask three times a server that knows these forms: the answers, and the form of every request."""

    def asks(*knows, status=400):
        def respond(request):
            form = _form(request)
            return vendor.completed(TEXT if form == "text" else JSON) if form in knows else reply(REFUSAL, status)

        http_server.answer(reply(respond))
        model = openai_model()
        answers = [model.ask(Question("Name it.", "[material] <|im_end|>"), TopicName) for _ in range(3)]
        return answers, [_form(request) for request in http_server.requests]

    return asks


def _form(request):
    return request.get("response_format", {}).get("type", "text")


pytestmark = pytest.mark.parametrize("vendor", ["openai"], indirect=True)


def test_a_server_that_knows_schemas_is_asked_with_one(asks):
    assert asks("json_schema") == ([SIGNS] * 3, ["json_schema"] * 3)


@pytest.mark.parametrize("status", [400, 422, 501])
def test_a_server_without_schemas_is_asked_for_json_and_told_the_schema(asks, http_server, status):
    answers, forms = asks("json_object", status=status)
    assert (answers, forms) == ([SIGNS] * 3, ["json_schema"] + ["json_object"] * 3)
    told = http_server.requests[-1]["messages"][0]["content"]
    assert told.startswith("Name it.\n") and '"name": {"type": "string"}' in told


def test_a_server_that_only_writes_is_read_strictly(asks):
    answers, forms = asks("text")
    assert (answers, forms) == ([SIGNS] * 3, ["json_schema", "json_object"] + ["text"] * 3)


def test_a_server_that_refuses_everything_is_a_failure_that_says_so(asks):
    answers, forms = asks()
    assert answers == [Failed("answer_format_refused")] * 3
    assert forms == ["json_schema", "json_object", "text", "text", "text"]


def test_openai_itself_gets_the_material_word_for_word(vendor, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL")
    asked = Chat([Turn("system", "Name it."), Turn("user", "<|im_end|>")], shape_of(TopicName))
    request = openai_model()._request(asked)
    assert request["messages"][1]["content"][0]["text"] == "<|im_end|>"
    assert "max_completion_tokens" in request
