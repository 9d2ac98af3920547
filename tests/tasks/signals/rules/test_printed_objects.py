"""An answer that is only a printed object is a text of the service; one that talks about the object is an answer."""

import json
import random

import pytest

from tasks.signals.rules.texts import service_text
from tests.places import DATA, needs_data

CLIENTS = ("ModelResponseStream", "ChatCompletion", "openai.types.ChatCompletionChunk", "GenerateContentResponse")
TYPES = ("generator", "coroutine", "async_generator", "openai.AsyncStream", "Response")
VALUES = ("None", "nan", "null", "undefined", "[object Object]", "[object Promise]", "<nil>", "<Response [200]>")
OTHERS = (
    "com.example.Answer@1b6d3586",
    "[TextBlock(citations=None, text='Hello (you)', type='text')]",
    "content='Use a file.' additional_kwargs={} response_metadata={'tokens': 3} id='run-1'",
    "{'id': 'c', 'object': 'chat.completion', 'choices': [{'finish_reason': 'stop'}]}",
    '{"candidates": [{"finishReason": "STOP"}], "usageMetadata": {}}',
    "GenerateContentResponse(candidates=[Candidate(finish_reason=<FinishReason.STOP: 'STOP'>)])",
    'event: message_start\ndata: {"type": "message_start"}\n\nevent: ping\ndata: {}',
)
SAID = ("It's (a) cat.", 'Say "cheese" [now]', "Use {braces}\\n", "")


def printed(rng: random.Random) -> str:
    """An object of a client or of a language, a stream of events, or what stands for no value."""
    said = repr(rng.choice(SAID))
    made = (
        f"{rng.choice(CLIENTS)}(id='c{rng.random()}', choices=[Choice(finish_reason={rng.choice(('None', said))}, "
        f"delta=Delta(content={said}, role='assistant'))], created={rng.randrange(10**9)}, model='m')",
        f"<{rng.choice(TYPES)} object {rng.choice(('answer ', 'f.<locals>.g ', ''))}at 0x{rng.randrange(10**12):x}>",
        "\n\n".join(f"data: {json.dumps({'choices': [{'delta': {'content': s}}]})}" for s in SAID) + "\n\ndata: [DONE]",
        rng.choice(VALUES),
        rng.choice(OTHERS),
    )
    return rng.choice(("", "\n")) + rng.choice(made) + rng.choice(("", "\n", "  "))


TALK = (
    "That is {}: the client printed the object and not its text.",
    "{} is what you see when you print the stream.",
    "```python\n{}\n```\nRead its field `content`.",
    "```\n{}\n```",
    "The output is `{}`.",
    "Because nothing is returned, Python prints\n\n{}\n\nUse `return`.",
)
ORDINARY = (
    "", "none", "None.", "None of them.", "N/A", "Rectangle(width=3, height=4)", "Button(id='ok', text='OK', type='a')",
    "undefined behaviour", '{"choices": ["a", "b"], "answer": "a"}', "data: the plural of datum", "x=3 y=4", "P(A)=0.5",
    "<svg></svg>", "me@example.org", "[1, 2, 3]", "f(x)=x+1",
)  # fmt: skip


def test_a_text_that_is_only_a_printed_object_is_one():
    rng = random.Random(57)
    for _ in range(400):
        text = printed(rng)
        assert service_text(text).kinds == ["printed_object"], text


def test_talk_about_a_printed_object_is_none():
    rng = random.Random(57)
    for _ in range(400):
        about = rng.choice(TALK).format(printed(rng).strip())
        assert service_text(about).kinds == [], about


def test_a_printed_object_that_was_cut_off_is_one():
    assert service_text("ChatCompletion(id='c', choices=[Choice(message=Message(content='Cut o").kinds


@pytest.mark.parametrize("text", ORDINARY)
def test_an_ordinary_answer_is_no_printed_object(text):
    assert service_text(text).kinds == []


@needs_data
def test_of_the_answers_in_a_public_report_all_but_the_good_one_are_printed_objects():
    file = DATA / "public-reports" / "placeholders-as-answers" / "2024-06-10-conv.json"
    answers = [json.loads(line)["state"]["messages"][1][1] for line in file.read_text(encoding="utf-8").splitlines()]
    assert [service_text(answer).kinds for answer in answers] == [["printed_object"]] * 3 + [[]]
