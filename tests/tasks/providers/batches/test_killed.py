"""A run that is killed while a batch is running does not pay for it again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from schemas.tags import Categories
from tests.batch_server import BatchServer, result
from tests.builders import conversation, decision, store_with

pytest.importorskip("openai", reason="production extra")
pytest.importorskip("google.genai", reason="production extra")

ROOT = Path(__file__).parents[4]
COUNT = 5
NIGHT = """
import sys
from schemas.settings import Settings
from tasks.signals.steps import measure_documents
from tasks.providers import Providers
from tasks.providers.production.calls import Service
Service.first_seconds, Service.longest_seconds = 0.01, 0.1
providers = Providers({"categories": sys.argv[2]})
report = measure_documents.fn(Settings(store=sys.argv[1], workers=2, batch=True), providers)
print(report.model_dump_json())
"""


@pytest.fixture
def server(no_proxy):
    no = json.dumps(dict.fromkeys(Categories.model_fields, False))
    server = BatchServer(lambda rows: b"".join(result(row, no) for row in rows))
    yield server
    server.may_answer.set()
    server.close()


@pytest.fixture
def start(server, tmp_path):
    """Start a night in a process of its own."""
    chats = [conversation(f"c{n}", f"Question {n}?", "Answer.") for n in range(COUNT)]
    store = store_with(tmp_path, conversations=chats, decisions=[decision(chat) for chat in chats])
    keys = {"OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k", "PYTHONPATH": str(ROOT)}
    places = {"OPENAI_BASE_URL": f"{server.url}/openai/v1", "CURATE_GEMINI_BASE_URL": server.url}

    def start(vendor):
        return subprocess.Popen(
            [sys.executable, "-c", NIGHT, store.root, vendor],
            cwd=ROOT,
            env=os.environ | keys | places,
            stdout=subprocess.PIPE,
            text=True,
        )

    start.store = store
    return start


def kill_when(process, reached):
    while not reached():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def finish(process):
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return json.loads(out)


def test_killed_while_it_waits_for_the_answers(server, start):
    server.hold = True
    kill_when(start("gemini"), lambda: server.polls)
    server.hold = False
    report = finish(start("gemini"))
    assert report["failures"] == {}
    assert start.store.read("signals/categories").height == COUNT
    assert (len(server.batches), len(server.requests)) == (1, COUNT)


def test_killed_before_it_knew_that_the_batch_was_made(server, start):
    server.may_answer.clear()
    kill_when(start("openai"), lambda: server.batches)
    server.may_answer.set()
    report = finish(start("openai"))
    assert report["failures"] == {}
    assert start.store.read("signals/categories").height == COUNT
    assert (len(server.batches), len(server.requests)) == (1, COUNT)
