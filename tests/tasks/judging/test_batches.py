"""Answers and verdicts through the vendors' batch APIs: each is asked for once, whatever ends a run."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from schemas.settings import Settings
from tasks.runtime.budget import ledger, start_ledger
from tests.asked_bench import PUBLIC, benched, models_file
from tests.batch_server import BatchServer, failed, result
from tests.builders import VERSIONS, gathered_rows
from tests.voted_store import voted

pytest.importorskip("openai", reason="production extra")
pytest.importorskip("google.genai", reason="production extra")
pytest.importorskip("anthropic", reason="production extra")
from tasks.judging.steps import collect_answers, collect_verdicts, collect_votes

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.filterwarnings("ignore:.* is not a valid FinishReason")
VENDORS = {"openai": "/openai/v1", "gemini": "", "anthropic": ""}
KILLED = """
import sys, time
from schemas.settings import Settings
from tasks.judging.steps import collect_verdicts
from tests.builders import VERSIONS
sleep, time.sleep = time.sleep, lambda seconds: sleep(min(seconds, 0.1))
chosen = {"judge": sys.argv[2], "baseline": "base"}
collect_verdicts.fn(Settings(store=sys.argv[1], batch=True, evaluate=chosen), VERSIONS)
"""


@pytest.fixture
def server(short_waits):
    server = BatchServer(lambda rows: b"".join(result(row, f"On {_said(row)[-1]}") for row in rows))
    yield server
    server.may_answer.set()
    server.close()
    start_ledger()


@pytest.fixture(params=VENDORS)
def vendor(request):
    return request.param


def _file(folder, server, vendor, *names):
    return models_file(folder, "", *names, vendor=vendor, base_url=f"{server.url}{VENDORS[vendor]}")


def _said(row):
    """The texts of a request, the last message last."""
    request = row.get("params") or row.get("request") or row["body"]
    turns = request.get("messages") or request["contents"]
    parts = [turn.get("content") or turn["parts"] for turn in turns]
    return [part if isinstance(part, str) else part[0]["text"] for part in parts]


def _settings(store, hours=1.0, **evaluate):
    return Settings(store=store.root, batch=True, batch_hours=hours, evaluate=evaluate)


def test_models_answer_in_batches_and_a_second_run_sends_nothing(vendor, server, tmp_path):
    store, models = benched(tmp_path), _file(tmp_path, server, vendor, "a", "b")
    report = collect_answers.fn(_settings(store, models=models))
    assert (report.counts, report.failures) == ({"complete": 2 * PUBLIC}, {})
    assert store.read("answers").select("question_id", "model", "text", "tokens").row(1) == (
        "q01", "a", "On Prompt 1?", 100
    )  # fmt: skip
    assert (len(server.batches), len(server.requests)) == (2, 2 * PUBLIC)
    collect_answers.fn(_settings(store, models=models))
    assert (len(server.batches), store.fs.ls(store.at("batches"))) == (2, [])


def test_a_question_that_failed_in_its_batch_is_asked_again(vendor, server, tmp_path):
    store, models = benched(tmp_path), _file(tmp_path, server, vendor, "a")
    server.lines = lambda rows: b"".join(failed(row) if "2" in _said(row)[0] else result(row, "Yes.") for row in rows)
    report = collect_answers.fn(_settings(store, models=models))
    assert sum(report.failures.values()) == 1
    server.lines = lambda rows: b"".join(result(row, "Yes.") for row in rows)
    collect_answers.fn(_settings(store, models=models))
    assert (len(server.requests), store.height("answers")) == (PUBLIC + 1, PUBLIC)


def _blocked(row):
    """The result line for a request line that the vendor declined."""
    if "params" in row:
        error = {"type": "invalid_request_error", "message": "Output blocked by content filtering policy"}
        said = {
            "custom_id": row["custom_id"],
            "result": {"type": "errored", "error": {"type": "error", "error": error}},
        }
    elif "key" in row:
        said = {"key": row["key"], "response": {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}}
    else:
        body = {"error": {"message": "filtered", "code": "content_filter"}}
        said = {"custom_id": row["custom_id"], "response": {"status_code": 400, "body": body}, "error": None}
    return json.dumps(said).encode() + b"\n"


def test_an_answer_in_a_batch_that_is_declined_or_ends_in_other_words_is_an_answer(vendor, server, tmp_path):
    store, models = benched(tmp_path), _file(tmp_path, server, vendor, "a")

    def said(row):
        line = re.sub(b'"(stop|STOP|end_turn)"', b'"eos_token"', result(row, "Yes."))
        return _blocked(row) if "2" in _said(row)[0] else line

    server.lines = lambda rows: b"".join(map(said, rows))
    for _ in range(2):  # nothing is sent twice
        report = collect_answers.fn(_settings(store, models=models))
        assert (report.failures, len(server.requests)) == ({}, PUBLIC)
    assert store.read("answers")["state"].value_counts().sort("state").rows() == [
        ("complete", PUBLIC - 1),
        ("refused", 1),
    ]


def test_an_answer_in_a_batch_is_paid_at_the_price_of_batches(server, tmp_path):
    image = "image: {tile_pixels: 32, tiles_max: 10, tokens_a_tile: 1}"
    price = f"{{input_usd_per_million: 1, output_usd_per_million: 1, batch_share: 0.5, {image}}}"
    (tmp_path / "prices.yaml").write_text(f"tokens:\n  openai-m-1: {price}\n")
    start_ledger(1.0, str(tmp_path / "prices.yaml"))
    collect_answers.fn(_settings(benched(tmp_path), models=_file(tmp_path, server, "openai", "a")))
    assert ledger().use()["openai-m-1"].usd == pytest.approx(PUBLIC * 0.5 * 1100e-6)


def _judged(rows):
    """No label for the baseline shown first, until the judge is asked again."""
    said = [(row, _said(row)) for row in rows]
    return b"".join(result(row, "[[A>B]]" if len(texts) > 2 else "Hard to say.") for row, texts in said)


def test_two_orders_of_equal_answers_are_two_requests_and_a_silent_judge_is_asked_again(vendor, server, tmp_path):
    store = benched(tmp_path, 1, {"base": "Same.", "m": "Same."})
    server.lines = _judged
    judge = _file(tmp_path, server, vendor, "judge")
    report = collect_verdicts.fn(_settings(store, judge=judge, baseline="base"), VERSIONS)
    assert report.counts == {"asked_again": 2, "verdicts": 2}
    assert (len(server.batches), len(server.requests)) == (2, 4)
    rows = store.read("verdicts").select("model_a", "model_b", "label", "text").rows()
    assert sorted(rows) == [(a, b, "A>B", "Hard to say.\n[[A>B]]") for a, b in (("base", "m"), ("m", "base"))]
    assert store.fs.ls(store.at("batches")) == []


def test_a_follow_up_that_is_not_answered_in_time_does_not_pay_for_the_first_reply_again(server, tmp_path):
    store = benched(tmp_path, 1, {"base": "Long.", "m": "Short."})

    def lines(rows):
        server.hold = True  # from the second batch on
        return _judged(rows)

    server.lines = lines
    chosen = {"judge": _file(tmp_path, server, "openai", "judge"), "baseline": "base"}
    report = collect_verdicts.fn(_settings(store, 1 / 3600, **chosen), VERSIONS)
    assert report.failures == {"judge: batch_unfinished": 2}
    server.hold, server.lines = False, _judged
    assert collect_verdicts.fn(_settings(store, **chosen), VERSIONS).counts == {"asked_again": 2, "verdicts": 2}
    assert (len(server.batches), len(server.requests)) == (2, 4)
    assert store.fs.ls(store.at("batches")) == []


def test_a_run_killed_while_its_follow_ups_are_sent_asks_nothing_twice(server, tmp_path):
    store = benched(tmp_path, 1, {"base": "Long.", "m": "Short."})

    def lines(rows):
        server.may_answer.clear()  # the next batch is made, and the run does not learn of it
        return _judged(rows)

    server.lines = lines
    judge = _file(tmp_path, server, "openai", "judge")
    with subprocess.Popen([sys.executable, "-c", KILLED, store.root, judge], cwd=ROOT) as run:
        while len(server.batches) < 2:
            assert run.poll() is None
            time.sleep(0.01)
        run.send_signal(signal.SIGKILL)
    server.lines = _judged
    server.may_answer.set()
    report = collect_verdicts.fn(_settings(store, judge=judge, baseline="base"), VERSIONS)
    assert report.counts == {"asked_again": 2, "verdicts": 2}
    assert (len(server.batches), len(server.requests)) == (2, 4)


def test_while_a_running_batch_may_be_the_lost_one_anthropic_is_not_asked_again(server, tmp_path):
    store, models = benched(tmp_path), _file(tmp_path, server, "anthropic", "a")
    server.hold, server.lose_creates = True, 1
    assert collect_answers.fn(_settings(store, models=models)).failures == {"a: batch_maybe_running": PUBLIC}
    server.hold = False
    assert collect_answers.fn(_settings(store, models=models)).counts == {"complete": PUBLIC}
    assert (len(server.batches), len(server.requests)) == (1, PUBLIC)


def test_votes_go_through_batches_and_a_second_run_sends_nothing(server, tmp_path):
    store = voted(tmp_path)
    server.lines = lambda rows: b"".join(result(row, "[[left]]") for row in rows)
    settings = _settings(store, judge=_file(tmp_path, server, "openai", "judge"), sample=4)
    for _ in range(2):
        collect_votes.fn(settings, VERSIONS, [gathered_rows(store).rows["battle"]])
        assert (len(server.batches), len(server.requests), store.height("judge_votes")) == (1, 4, 4)
