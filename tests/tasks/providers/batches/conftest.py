"""Runs that use a Batch API, and its server."""

import json

import pytest

from schemas.settings import Settings
from schemas.tags import Categories
from tasks.providers import Providers
from tasks.runtime.budget import start_ledger
from tasks.signals.steps import measure_documents
from tests.batch_server import BatchServer, asked, result
from tests.builders import conversation, decision, store_with

COUNT = 6
"""Documents; those with an odd number hold text."""


def odd(row):
    return any(f"Question {number}?" in asked(row) for number in (1, 3, 5))


@pytest.fixture
def server():
    server = BatchServer(lambda rows: b"".join(result(row, labels(ocr=odd(row))) for row in rows))
    yield server
    server.close()


@pytest.fixture(params=["openai", "gemini"])
def night(request, server, monkeypatch, short_waits, tmp_path):
    """One night: measures a store's documents in batches, and gives the step's report."""
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.setenv("GEMINI_API_KEY", "test-key")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/openai/v1")
    monkeypatch.setenv("CURATE_GEMINI_BASE_URL", server.url)
    chats = [conversation(f"c{n}", f"Question {n}?", "Answer.") for n in range(COUNT)]
    store = store_with(tmp_path, conversations=chats, decisions=[decision(chat) for chat in chats])

    pytest.importorskip("openai", reason="production extra")
    pytest.importorskip("google.genai", reason="production extra")

    def night(hours=1.0, budget=None, prices=None, began_at=None):
        ledger = start_ledger(budget, prices)
        ledger.began_at = began_at or ledger.began_at
        providers = Providers({"categories": request.param})
        night.service = providers["categories"].model.version
        return measure_documents.fn(Settings(store=store.root, workers=2, batch=True, batch_hours=hours), providers)

    night.store, night.vendor = store, request.param
    yield night
    start_ledger()


def labels(**true):
    return json.dumps(dict.fromkeys(Categories.model_fields, False) | true)
