"""Batches through the vendors' real SDKs: half the price, incomplete answers, killed runs that do not pay again."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from schemas.run import Use
from schemas.tags import Categories
from tasks.providers import Providers
from tasks.providers.capabilities import ChatMessage
from tasks.runtime.budget import ledger, one_ledger, start_ledger
from tests.batch_server import BatchServer, failed, name_of, result
from tests.builders import conversation, decision, store_with
from tests.tasks.providers.batches.conftest import COUNT, odd

pytest.importorskip("openai", reason="production extra")
pytest.importorskip("google.genai", reason="production extra")

from tasks.providers.production.batches.api import BatchApi

LABELS = dict.fromkeys(Categories.model_fields, False)
NO = json.dumps(LABELS)


def signal_values(night):
    return dict(night.store.read("signals/categories").select("content_id", "ocr").iter_rows())


def records(night):
    return [path for path in night.store.fs.find(night.store.at("batches")) if path.endswith(".json")]


def test_a_night_asks_once_and_stores_every_answer_at_half_the_price(night, server):
    report = night()
    assert (report.failures, report.model_calls["categories"]) == ({}, COUNT)
    assert sorted(signal_values(night).values()) == [False] * 3 + [True] * 3
    assert len(server.batches) == 1
    (use,) = report.use.values()
    price = ledger().prices.tokens(night.service)
    assert use.usd == pytest.approx(COUNT * price.usd(1000, 100) / 2)
    assert (use.calls, use.input_tokens, use.usd_unconfirmed) == (COUNT, COUNT * 1000, 0)
    assert "categories" not in night().model_calls


def test_another_account_neither_takes_nor_forgets_a_batch(night, server, monkeypatch):
    server.hold = True
    assert len(night(hours=0).failures) == 1
    kept = records(night)
    for key in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(key, "another-key")
    night(hours=0)
    assert set(kept) < set(records(night)) and len(server.batches) == 2
    assert not any("test-key" in night.store.fs.cat_file(path).decode() for path in records(night))
    for key in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(key, "test-key")
    server.hold = False
    assert night().failures == {} and len(server.batches) == 2
    assert kept[0] not in records(night)


def test_answers_in_another_order_reach_their_questions(night, server):
    night()
    straight, lines = signal_values(night), server.lines
    night.store.replace("signals/categories", night.store.empty("signals/categories"))
    server.lines = lambda rows: lines(rows[::-1])
    night()
    assert signal_values(night) == straight


def test_nothing_is_left_in_the_store_or_at_the_vendor(night, server):
    night()
    assert records(night) == []
    assert {batch["output"] for batch in server.batches.values()} <= set(server.deleted)


def test_questions_are_named_by_hash_and_the_batch_by_chance(night, server):
    night()
    names = [name_of(row) for row in server.requests]
    ids = {*night.store.read("conversations")["document_id"], *night.store.read("conversations")["conversation_id"]}
    assert all(len(name) == 32 and set(name) <= set("0123456789abcdef") for name in names)
    assert not ids & set(names)
    assert len(set(names)) == COUNT


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda rows: b"".join(failed(row) if odd(row) else result(row, NO) for row in rows), "batch_"),
        (lambda rows: b"".join(result(row, NO) for row in rows if not odd(row)), "missing_answer"),
        (lambda rows: b"".join(b"{cut\n" if odd(row) else result(row, NO) for row in rows), "missing_answer"),
        (lambda rows: b"".join(result(row, NO) * (2 if odd(row) else 1) for row in rows), "contradictory_answer"),
        (lambda rows: b"".join(result(row, "yes" if odd(row) else NO) for row in rows), "malformed_answer"),
    ],
    ids=["failed", "missing", "no JSON", "twice", "off the schema"],
)
def test_what_did_not_come_back_whole_is_a_failure_and_is_asked_again(night, server, spoil, reason):
    good, server.lines = server.lines, spoil
    report = night()
    (failure,) = report.failures.items()
    assert failure[0].startswith(f"categories: {reason}") and failure[1] == 3
    assert list(signal_values(night).values()) == [False] * 3
    server.lines = good
    assert night().model_calls["categories"] == 3
    assert sorted(signal_values(night).values()) == [False] * 3 + [True] * 3
    assert len(server.requests) == COUNT + 3


def test_an_answer_to_a_question_that_nobody_asked_is_ignored(night, server):
    good = server.lines
    key = {"openai": "custom_id", "gemini": "key"}[night.vendor]
    server.lines = lambda rows: good(rows) + result({key: "0" * 32}, json.dumps(LABELS | {"humor": True}))
    report = night()
    assert report.failures == {}
    assert [use.calls for use in report.use.values()] == [COUNT]
    assert len(signal_values(night)) == COUNT


@pytest.mark.parametrize("ends", ["expired", "failed", "cancelled"])
def test_a_batch_that_ends_early_gives_what_it_has_and_the_rest_costs_nothing(night, server, ends):
    good, server.ends = server.lines, ends
    server.lines = lambda rows: good(rows[:2])
    report = night()
    answered = 0 if ends == "failed" else 2
    assert report.failures == {f"categories: batch_{ends}": COUNT - answered}
    (use,) = report.use.values()
    assert (len(signal_values(night)), use.usd_unconfirmed) == (answered, 0)
    server.ends, server.lines = "completed", good
    assert night().failures == {}
    assert len(signal_values(night)) == COUNT


def test_a_night_that_does_not_want_to_wait_leaves_the_batch_to_the_next(night, server):
    server.hold = True
    report = night(hours=0.0)
    assert report.failures == {"categories: batch_unfinished": COUNT}
    (use,) = report.use.values()
    assert use.usd_unconfirmed > 0
    assert len(records(night)) == 1
    server.hold = False
    report = night()
    assert report.failures == {}
    assert [use.usd > 0 for use in report.use.values()] == [True]
    assert (len(server.batches), len(server.requests), records(night)) == (1, COUNT, [])


def test_what_a_batch_cost_replaces_the_highest_price_that_the_night_which_sent_it_counts(night, server):
    server.hold = True
    (sent,) = night(hours=0.0).use.values()
    server.hold = False
    (collected,) = night().use.values()
    assert (sent.calls, sent.usd, sent.usd_settled) == (COUNT, 0, 0)
    assert (collected.calls, collected.usd_unconfirmed) == (0, 0), "its requests are counted once"
    assert collected.usd_settled == pytest.approx(sent.usd_unconfirmed)
    assert 0 < collected.usd < collected.usd_settled


@pytest.mark.parametrize("change", [{"counted_month": "2026-01"}, {"counted_usd": 0.0, "counted_month": ""}])
def test_what_another_month_or_a_killed_run_counts_for_a_batch_is_not_taken_back(night, server, change):
    server.hold = True
    (sent,) = night(hours=0.0).use.values()
    (path,) = records(night)
    record = json.loads(night.store.fs.cat_file(path))
    night.store.fs.pipe_file(path, json.dumps(record | change).encode())
    server.hold = False
    (collected,) = night().use.values()
    assert collected.usd > 0 == collected.usd_settled
    assert collected.calls == COUNT == sent.calls


def test_a_batch_that_ends_in_the_next_month_is_counted_once_in_the_month_in_which_both_its_runs_began(night, server):
    last_evening = datetime(2026, 1, 31, 23, tzinfo=UTC)
    server.hold = True
    (sent,) = night(hours=0.0, began_at=last_evening).use.values()
    server.hold = False
    (collected,) = night(began_at=last_evening).use.values()
    assert collected.usd_settled == pytest.approx(sent.usd_unconfirmed)
    assert (sent.calls, collected.calls) == (COUNT, 0)


def test_the_requests_of_a_batch_without_a_price_are_counted_once(night, server, tmp_path):
    (tmp_path / "prices.yaml").write_text("tokens: {}")
    server.hold = True
    (sent,) = night(hours=0.0, prices=str(tmp_path / "prices.yaml")).use.values()
    server.hold = False
    (collected,) = night(prices=str(tmp_path / "prices.yaml")).use.values()
    assert (sent.calls, collected.calls, collected.calls_unpriced) == (COUNT, 0, COUNT)


def test_a_batch_that_failed_at_the_vendor_gives_back_all_that_was_counted(night, server):
    server.hold = True
    (sent,) = night(hours=0.0).use.values()
    server.hold, server.ends = False, "failed"
    (collected,) = night().use.values()
    assert collected.usd == 0
    assert collected.usd_settled == pytest.approx(sent.usd_unconfirmed)


def test_an_answer_that_is_collected_again_for_the_question_that_follows_from_it_is_billed_once(
    night, server, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    server.lines = lambda rows: b"".join(result(row, "Yes.") for row in rows)
    model = Providers({"categories": night.vendor})["categories"].model

    def run(hours: float, follow: bool) -> dict[str, Use]:
        before = start_ledger().use()
        with model.together(night.store, hours) as queue:
            model.chat([ChatMessage("user", "Question 1?")], "first")
            queue.send()
            queue.wait()
            if follow:
                server.hold = True
                model.chat([ChatMessage("user", "Question 2?")], "second")
                queue.send()
                queue.wait()
                server.hold = False
        return ledger().since(before)

    (first,) = run(0.0002, follow=True).values()
    assert first.usd > 0 < first.usd_unconfirmed
    assert len(records(night)) == 2, "the first answer is needed until the second question has its own"
    assert run(1.0, follow=False) == {}, "the first is collected again, and costs nothing again"


def test_a_lost_answer_to_the_making_of_a_batch_does_not_make_two(night, server):
    server.lose_creates = 1
    assert night().failures == {}
    assert len(server.batches) == 1


def test_a_refused_batch_is_a_failure_that_costs_nothing(night, server):
    server.refuse_create = 1
    report = night()
    assert report.failures == {"categories: http_400": COUNT}
    (use,) = report.use.values()
    assert (use.usd, use.usd_unconfirmed) == (0, 0)
    assert records(night) == []
    assert night().failures == {}


def test_a_vendor_that_is_down_for_a_while_and_a_cut_download_are_survived(night, server):
    server.fail_polls, server.cut_downloads = 20, 1
    with one_ledger(None, None):  # polls go on after the service was paused for all other calls
        assert night().failures == {}
    assert len(server.batches) == 1


def test_only_what_the_budget_has_room_for_is_uploaded(night, server):
    night(budget=0.0)
    assert server.batches == {}
    most = 0.03
    report = night(budget=most)
    left = report.failures["categories: budget_reached"]
    assert 0 < left < COUNT
    assert len(server.requests) == COUNT - left == len(signal_values(night))
    assert sum(use.usd for use in report.use.values()) <= most
    night()
    assert (len(server.requests), len(signal_values(night))) == (COUNT, COUNT)


def test_questions_are_split_to_the_limits_of_the_vendor(night, server, monkeypatch):
    for api in BatchApi.__subclasses__():
        monkeypatch.setattr(api, "requests_max", 4)
    assert night().failures == {}
    assert sorted(len(server.files[batch["file"]].splitlines()) for batch in server.batches.values()) == [2, 4]
    night.store.replace("signals/categories", night.store.empty("signals/categories"))
    for api in BatchApi.__subclasses__():
        monkeypatch.setattr(api, "requests_max", 50_000)
        monkeypatch.setattr(api, "bytes_max", 2 * max(map(len, server.files["f0"].splitlines())) + 100)
    assert night().failures == {}
    assert [len(server.files[batch["file"]].splitlines()) for batch in list(server.batches.values())[2:]] == [2, 2, 2]


@pytest.mark.parametrize("night", ["gemini"], indirect=True)
def test_answers_that_come_with_the_state_are_read_too(night, server):
    server.inline = True
    assert night().failures == {}
    assert sorted(signal_values(night).values()) == [False] * 3 + [True] * 3


ROOT = Path(__file__).parents[4]
ANSWERED = 5
NIGHT = """
import sys, time
from schemas.settings import Settings
from tasks.signals.steps import measure_documents
from tasks.providers import Providers
sleep, time.sleep = time.sleep, lambda seconds: sleep(min(seconds, 0.1))
providers = Providers({"categories": sys.argv[2]})
report = measure_documents.fn(Settings(store=sys.argv[1], workers=2, batch=True), providers)
print(report.model_dump_json())
"""


@pytest.fixture
def slow():
    no = json.dumps(dict.fromkeys(Categories.model_fields, False))
    slow = BatchServer(lambda rows: b"".join(result(row, no) for row in rows))
    yield slow
    slow.may_answer.set()
    slow.close()


@pytest.fixture
def start(slow, tmp_path):
    """Start a night in a process of its own."""
    chats = [conversation(f"c{n}", f"Question {n}?", "Answer.") for n in range(ANSWERED)]
    store = store_with(tmp_path, conversations=chats, decisions=[decision(chat) for chat in chats])
    keys = {"OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k", "PYTHONPATH": str(ROOT)}
    places = {"OPENAI_BASE_URL": f"{slow.url}/openai/v1", "CURATE_GEMINI_BASE_URL": slow.url}

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


def test_killed_while_it_waits_for_the_answers(slow, start):
    slow.hold = True
    kill_when(start("gemini"), lambda: slow.polls)
    slow.hold = False
    report = finish(start("gemini"))
    assert report["failures"] == {}
    assert start.store.read("signals/categories").height == ANSWERED
    assert (len(slow.batches), len(slow.requests)) == (1, ANSWERED)


def test_killed_before_it_knew_that_the_batch_was_made(slow, start):
    slow.may_answer.clear()
    kill_when(start("openai"), lambda: slow.batches)
    slow.may_answer.set()
    report = finish(start("openai"))
    assert report["failures"] == {}
    assert start.store.read("signals/categories").height == ANSWERED
    assert (len(slow.batches), len(slow.requests)) == (1, ANSWERED)
