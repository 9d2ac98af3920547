"""Image models over the vendors' real SDKs, against a server on this machine."""

import base64
import json

import pytest

from schemas.benches.generated import Capability, GeneratedAspect
from tasks.generated_bench.aspects import levels
from tasks.providers import Providers
from tasks.providers.capabilities import AspectsWanted, DescriptionWanted, Failed, QuestionWanted
from tasks.runtime.budget import ledger, start_ledger
from tests.asked_bench import completed
from tests.builders import image_bytes
from tests.http_server import Reply

PNG = image_bytes(1)
CAPABILITY = Capability(name="basic", definition="d" * 10, goal="g" * 10, requirement="r" * 10)
ASPECT = GeneratedAspect(
    bench="b", aspect=0, general="g", name="n", introduction="SECRET-INTRODUCTION", guideline="u", version="1"
)


def openai_image(**changes):
    return {"created": 1, "data": [{"b64_json": base64.b64encode(PNG).decode()} | changes]}


def gemini_image(finish="STOP", parts=None):
    drawn = [{"inlineData": {"mimeType": "image/png", "data": base64.b64encode(PNG).decode()}}]
    return {
        "candidates": [
            {"content": {"role": "model", "parts": drawn if parts is None else parts}, "finishReason": finish}
        ]
    }


@pytest.fixture(params=["openai", "gemini"])
def vendor(request, monkeypatch, http_server, short_waits, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{http_server.url}/v1")
    monkeypatch.setenv("CURATE_GEMINI_BASE_URL", http_server.url)
    monkeypatch.setenv("CURATE_OPENAI_IMAGE_MODEL", "m")
    monkeypatch.setenv("CURATE_GEMINI_IMAGE_MODEL", "m")
    (tmp_path / "prices.yaml").write_text(
        "units:\n  openai-m: {usd_per_thousand: 40}\n  google-m: {usd_per_thousand: 40}\n"
    )
    start_ledger(0.1, str(tmp_path / "prices.yaml"))
    yield request.param
    start_ledger()


def good(vendor):
    return Reply(openai_image() if vendor == "openai" else gemini_image())


def test_an_image_comes_as_it_was_made_is_paid_once_and_none_exceeds_the_budget(vendor, http_server):
    http_server.answer(good(vendor))
    pictures = Providers({"pictures": vendor})["pictures"]
    assert pictures.draw("A red ball.", "1") == PNG
    assert "A red ball." in json.dumps(http_server.requests)
    (use,) = ledger().use().values()
    assert (use.calls, use.units, round(use.usd, 4), use.usd_unconfirmed) == (1, 1, 0.04, 0)
    made = [pictures.draw("A red ball.", str(n)) for n in (2, 3)]
    assert made == [PNG, Failed("budget_reached")] and len(http_server.requests) == 2


def test_a_refusal_is_named_and_not_repeated(vendor, http_server):
    blocked = {"error": {"code": "moderation_blocked", "message": "quotes the prompt", "type": "x"}}
    http_server.answer(Reply(blocked, 400) if vendor == "openai" else Reply(gemini_image("IMAGE_SAFETY", [])))
    assert Providers({"pictures": vendor})["pictures"].draw("A red ball.", "1") == Failed("refused")
    assert len(http_server.requests) == 1


@pytest.mark.parametrize("vendor", ["gemini"], indirect=True)
def test_a_prompt_that_google_blocks_is_refused(vendor, http_server):
    http_server.answer(Reply({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}))
    assert Providers({"pictures": vendor})["pictures"].draw("A red ball.", "1") == Failed("refused")


def test_rate_limits_are_waited_out_and_cut_off_answers_are_no_image(vendor, http_server):
    limited = Reply({"error": {"message": "slow", "code": 429}}, 429, {"retry-after": "0.01"})
    http_server.answer(limited, good(vendor))
    pictures = Providers({"pictures": vendor})["pictures"]
    assert pictures.draw("A red ball.", "1") == PNG
    http_server.answer(Reply(good(vendor).body, cut=True))
    failed = pictures.draw("A red ball.", "2")
    assert isinstance(failed, Failed) and failed.reason in ("connection_failed", "malformed_answer", "budget_reached")


def test_an_address_or_a_text_in_place_of_the_image_is_a_failure(vendor, http_server):
    address = openai_image(b64_json=None, url="https://example.org/a.png")
    text = gemini_image(parts=[{"text": "Here is your image."}])
    http_server.answer(Reply(address if vendor == "openai" else text))
    failed = Providers({"pictures": vendor})["pictures"].draw("A red ball.", "1")
    assert failed == Failed("address_in_place_of_image" if vendor == "openai" else "no_image_in_answer")


def replies(vendor, *values):
    def body(text):
        part = {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}]}
        return completed(text) if vendor == "openai" else part

    return [Reply(body(json.dumps(value))) for value in values]


def test_an_author_and_a_viewer_are_asked_over_the_sdks(vendor, http_server):
    start_ledger()
    author, viewer = (Providers({name: vendor})[name] for name in ("author", "viewer"))
    aspect = {"general": "g", "name": "n", "introduction": "i", "guideline": "u"}
    told = {"description": "A red cup.", "topic_word": "cup", "key_words": ["red", "table", "round", "day"]}
    check = {
        "question": "Is there a cup?",
        "element": "cup",
        "type": "object",
        "choices": ["yes", "no"],
        "answer": "yes",
    }
    asked = {"kind": "colour", "question": "Which colour?", "right": "red", "wrong": ["blue", "green", "pink"]}
    http_server.answer(*replies(
        vendor, {"aspects": [aspect]}, told, {"checks": [check | {"parent": None}]}, asked, {"answer": "red"},
        {"answer": "yes"}, {"answer": 3},
    ))  # fmt: skip
    assert author.aspects(AspectsWanted(CAPABILITY, 1, 1)).aspects[0].name == "n"
    wanted = DescriptionWanted(CAPABILITY, ASPECT, "easy", levels()["easy"], ("ball",), "1")
    assert author.describe(wanted).topic_word == "cup"
    assert author.checks("A red cup.", 3).checks[0].type == "object"
    about = ("A red cup.", ("size of the cup",), "1")
    question = author.question(QuestionWanted(CAPABILITY, ASPECT, "easy", levels()["easy"], *about))
    assert question.wrong == asked["wrong"]
    assert author.solve("A red cup.", question.question, ["blue", "red"]).answer == "red"
    assert viewer.look(("png", PNG), "Is there a cup?", ["yes", "no"]) == "yes"
    assert viewer.look(("png", PNG), "Is there a cup?", ()) == Failed("malformed_answer")
    sent = [json.dumps(request) for request in http_server.requests]
    assert "SECRET-INTRODUCTION" in sent[1] and "size of the cup" in sent[3]
    assert levels()["easy"].question in sent[3], "an author is told what a question of the level asks for"
    assert base64.b64encode(PNG).decode()[:40] in sent[5]
    assert not any(base64.b64encode(PNG).decode()[:40] in each for each in sent[:5]), "an author never sees an image"
    assert "A red cup." not in sent[5], "a viewer never sees the description"
