"""A service that is down is paused, tried once more at the end of a step, and then measures what it left."""

import json
from collections import Counter

import pytest

from schemas.run import PAUSED
from schemas.settings import Settings
from schemas.tags import TAGS
from tasks.providers import Providers
from tasks.runtime.budget import one_ledger
from tasks.signals.steps import measure_documents
from tests.asked_bench import completed
from tests.builders import conversation, decision, store_with
from tests.http_server import Reply
from tests.tasks.signals.conftest import CountingProviders

pytest.importorskip("openai", reason="production extra")

CHATS = [conversation(f"chat{n:02d}", f"What is number {n}?", "A cat.") for n in range(30)]
DOWN, BAD, GOOD = (
    Reply({"error": "x"}, 503),
    Reply({"error": "x"}, 400),
    completed(json.dumps(dict.fromkeys(TAGS, True))),
)


class Chosen(CountingProviders):
    """Categories by OpenAI's package, and providers that answer at once."""

    def __getitem__(self, capability):
        return (
            Providers({capability: "openai"})[capability]
            if capability == "categories"
            else super().__getitem__(capability)
        )


@pytest.fixture
def measure(http_server, tmp_path, monkeypatch, short_waits):
    """Measure the categories of thirty chats with a server that gives these replies: calls, failures, rows."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{http_server.url}/v1")
    monkeypatch.setenv("CURATE_CALLS_AT_ONCE", "1")
    store = store_with(tmp_path, conversations=CHATS, decisions=[decision(each) for each in CHATS])

    def measure(*replies):
        http_server.answer(*replies)
        with one_ledger(None, None):
            report = measure_documents.fn(Settings(store=store.root, workers=1), Chosen())
        return report.model_calls.get("categories"), report.failures, store.height("signals/categories")

    return measure


def test_what_a_paused_service_left_is_measured_at_the_end_of_the_step_if_it_answers_again(measure, http_server):
    calls, failures, rows = measure(*[DOWN] * 15, BAD, Reply(GOOD))
    assert (calls, failures, rows) == (30, {"categories: http_400": 1}, 29)
    assert len(http_server.requests) == 15 + 30, "ten failures and five attempts, then each chat once"


def test_a_service_that_stays_down_costs_sixteen_requests_and_the_next_run_asks_for_all(measure, http_server):
    calls, failures, rows = measure(DOWN)
    assert (calls, rows, len(http_server.requests)) == (30, 0, 16)
    assert Counter(failures) == {"categories: server_error": 1, f"categories: {PAUSED}": 29}
    assert measure(Reply(GOOD)) == (30, {}, 30)
