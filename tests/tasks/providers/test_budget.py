"""Paid services never exceed the budget, and the recorded use is what the services reported."""

import json

import pytest

from schemas.settings import Settings
from schemas.tags import Categories
from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.runtime.budget import ledger, start_ledger
from tasks.signals.steps import measure_documents
from tests.builders import conversation, decision, store_with

pytest.importorskip("google.cloud.vision_v1", reason="production extra")
import grpc

from tasks.providers.production import labels
from tasks.providers.production.google.vision import VisionClient, VisionFaces, VisionText

NO = json.dumps(dict.fromkeys(Categories.model_fields, False))
USED = {
    "OPENAI_API_KEY": {"usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}},
    "GEMINI_API_KEY": {
        "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 60, "thoughtsTokenCount": 40}
    },
}


@pytest.fixture(autouse=True)
def fresh_ledger():
    yield start_ledger()
    start_ledger()


@pytest.fixture
def tagger(vendor, short_waits):
    return labels.categories(vendor.model())


def _use():
    (use,) = ledger().use().values()
    return use


def test_tokens_are_what_the_service_counted_also_of_refused_and_cut_off_answers(
    vendor, tagger, reply, http_server, document
):
    http_server.answer(reply(vendor.completed(NO) | USED[vendor.key]))
    tagger.tag([document()] * 3)
    assert (_use().calls, _use().input_tokens, _use().output_tokens) == (3, 3000, 300)
    assert _use().usd == pytest.approx(3 * ledger().prices.tokens(tagger.service).usd(1000, 100))
    assert _use().usd_unconfirmed == 0
    http_server.answer(reply(vendor.truncated | USED[vendor.key]))
    assert tagger.tag([document()]) == [Failed("truncated")]
    assert _use().output_tokens == 400


def test_nothing_is_sent_past_the_budget_and_the_rest_stays_unmeasured(vendor, tagger, reply, http_server, document):
    http_server.answer(reply(vendor.completed(NO) | USED[vendor.key]))
    start_ledger(0.03)
    answers = tagger.tag([document()] * 40)
    left = [answer for answer in answers if isinstance(answer, Failed)]
    assert 0 < len(left) < 40
    assert set(left) == {Failed("budget_reached")}
    assert len(http_server.requests) == 40 - len(left)
    assert _use().usd <= 0.03


def test_a_rate_limit_costs_nothing_and_a_lost_answer_is_unconfirmed(vendor, tagger, reply, http_server, document):
    good = reply(vendor.completed(NO) | USED[vendor.key])
    http_server.answer(reply({"error": {"message": "slow"}}, 429), good)
    tagger.tag([document()])
    assert (_use().calls, _use().usd_unconfirmed) == (2, 0)
    http_server.answer(reply(None), good)
    tagger.tag([document()])
    assert _use().usd_unconfirmed > 0


def test_vision_bills_every_feature_of_every_image_stops_at_the_budget_and_pays_no_exhausted_quota(
    vision_server, short_waits, drawn_image
):
    client = VisionClient()
    faces, text = VisionFaces(client), VisionText(client)
    start_ledger(0.1)  # 66 units: two requests of 16 images with 2 features, not three
    found = faces.find_faces([drawn_image(seed) for seed in range(48)])
    assert sum(isinstance(answer, Failed) for answer in found) == 16
    assert text.read([drawn_image(0)]) == text.read([drawn_image(0)])
    assert (_use().calls, _use().units) == (2, 64)
    assert len(vision_server.images) == 32
    start_ledger(0.1)
    assert not any(isinstance(a, Failed) for a in faces.find_faces([drawn_image(seed) for seed in range(48)]))
    assert len(vision_server.images) == 48  # the third batch only: nothing is paid twice
    start_ledger()
    vision_server.failures.append(grpc.StatusCode.RESOURCE_EXHAUSTED)
    faces = VisionFaces(VisionClient())
    assert faces.find_faces([drawn_image()]) == [[]]
    assert (_use().calls, _use().units, _use().usd_unconfirmed) == (2, 1, 0)


def test_the_next_run_asks_only_for_what_a_budget_left(vendor, reply, http_server, tmp_path):
    name = {"OPENAI_API_KEY": "openai", "GEMINI_API_KEY": "gemini"}[vendor.key]
    chats = [conversation(f"c{n}", f"Question {n}?", "Answer.") for n in range(30)]
    kept = [decision(chat) for chat in chats]
    store = store_with(tmp_path, conversations=chats, decisions=kept)
    http_server.answer(reply(vendor.completed(NO) | USED[vendor.key]))
    settings, providers = Settings(store=store.root, workers=2), Providers({"categories": name})
    start_ledger(0.03)
    first = measure_documents.fn(settings, providers)
    left = first.failures["categories: budget_reached"]
    assert 0 < left < 30
    assert store.read("signals/categories").height == 30 - left
    start_ledger()
    second = measure_documents.fn(settings, providers)
    assert (second.model_calls, second.failures) == ({"categories": left}, {})
    assert [use.calls for use in first.use.values()] == [30 - left]
    assert len(http_server.requests) == 30
