"""A judge that sees no image: captions, both orders, four states of a verdict, and none is paid twice."""

import json
from datetime import timedelta

import polars as pl
import pytest

from schemas.errors import CurateError
from tasks.judging.visit_battles import visit_battles, visit_verdicts
from tests.asked_bench import completed, evaluating, last_text, models_file, said_by
from tests.builders import NOON, VERSIONS
from tests.http_server import HttpServer, Reply
from tests.visit_bench import HIDDEN, visit_bench

pytest.importorskip("openai", reason="production extra")
from tasks.judging.steps import collect_verdicts


def _json(better, reasons="Both were read."):
    return json.dumps({"reasons": reasons, "better": better})


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("CURATE_CALLS_AT_ONCE", "1")
    server = HttpServer()
    server.answer(Reply(completed(_json("A"))))
    yield server
    server.close()


@pytest.fixture
def judged(server, tmp_path):
    """Makes a benchmark with answers, and a function that compares them; it returns report and requests."""

    def judged(items=1, judge=None, **answers):
        store = visit_bench(tmp_path / "store", answers or {"x": "A cup of {}.", "y": "A plate."}, items)
        file = judge or models_file(tmp_path, server.url, "judge")

        def compare(judge=file, bench="b", **chosen):
            before = len(server.requests)
            asked = evaluating(store, judge=judge, protocol="visit", bench=bench, **chosen)
            return collect_verdicts.fn(asked, VERSIONS), server.requests[before:]

        compare.store = store
        return compare

    return judged


def _by_words(text):
    """A judge that likes plates, whichever seat they have."""
    return _json("A" if text.find("A plate.") < text.find("A cup of") else "B")


def test_captions_stand_for_images_and_both_orders_are_asked_with_reasons_first(judged):
    compare = judged()
    report, requests = compare(baseline="x", models=None)
    assert len(requests) == 4  # x against y and against the reference, both orders
    user = last_text(requests[0])
    assert user.index("Caption of image 1:") < user.index("Caption of image 2:") < user.index("Instruction:")
    assert all("image_url" not in json.dumps(request["messages"]) for request in requests)
    shape = requests[0]["response_format"]["json_schema"]["schema"]
    assert [*shape["properties"]] == shape["required"] == ["reasons", "better"]
    assert not any("Reference:" in last_text(request) for request in requests)
    assert report.counts["flipped"] == report.counts["battles"] == 2  # always the first seat
    assert report.counts["items_hidden"] == 1


def test_more_wins_in_two_orders_win_and_no_verdict_is_paid_twice_until_the_captions_change(judged, server):
    compare = judged(items=2)
    server.answer(Reply(said_by(_by_words)))
    assert len(compare(baseline="x", models=None)[1]) == 8
    assert compare(baseline="x")[1] == []
    battles = visit_battles(visit_verdicts(compare.store, "b")).filter(model_b="y")
    assert battles.select("model_a", "winner", "in_order", "turned", "flipped").unique().rows() == [
        ("x", "model_b", "model_b", "model_b", False)
    ]
    (one,) = compare.store.read("captions").filter(item_id="i1").to_dicts()
    compare.store.append("captions", pl.DataFrame([one | {"text": "A mug.", "written_at": NOON + timedelta(1)}]))
    report, requests = compare(baseline="x")
    assert ["A mug." in last_text(each) for each in requests] == [True] * 2  # its reference is stale now
    assert visit_battles(visit_verdicts(compare.store, "b")).filter(question_id="i1").height == 1
    assert report.counts["items_hidden"] == 1


def test_the_form_with_reference_is_another_judge_and_shows_it(judged):
    compare = judged()
    compare(baseline="x")
    _, requests = compare(baseline="y", with_reference=True)
    assert len(requests) == 4
    assert all("Reference:" in last_text(each) for each in requests)
    with pytest.raises(CurateError, match=r"never mixes verdicts of several judges; choose with"):
        visit_verdicts(compare.store, "b")


def test_a_server_without_structured_replies_gets_free_text_and_one_extraction_call(judged, server):
    refusal = Reply({"error": {"message": "response_format json_schema is not supported"}}, 400)
    compare = judged(x="A cup of {}.", y="")  # an answer without words plays no battle
    server.answer(
        refusal,
        Reply(completed("First I thought [[A]], but no: [[B]]")),
        Reply(completed("The first one.")),
        Reply(completed("unknown")),
    )
    report, requests = compare(baseline="x")
    assert ["response_format" in each for each in requests] == [True, False, False, False]
    assert "The first one." in last_text(requests[-1])
    rows = compare.store.read("verdicts").sort("asked_again")
    assert rows.select("label", "asked_again").rows() == [("B>A", False), (None, True)]
    assert report.counts["no_verdict"] == report.counts["asked_again"] == 1
    (battle,) = visit_battles(rows).to_dicts()
    assert (battle["no_verdict"], battle["flipped"], battle["winner"]) == (1, False, "model_b")


def test_a_wordless_reply_is_no_tie_and_is_asked_again(judged, server):
    compare = judged()
    server.answer(Reply(completed(" ")), Reply(completed(_json("none"))))
    report, _ = compare(baseline="x")
    assert (report.failures, report.counts["battles"]) == ({"judge: empty_verdict": 1}, 1)
    report, requests = compare(baseline="x")
    assert (len(requests), report.counts["battles"], report.counts["ties"]) == (1, 2, 2)


def test_hidden_captions_go_only_to_a_server_of_ones_own(judged, server, tmp_path):
    compare = judged()
    with pytest.raises(CurateError, match="not on a server of your own"):
        compare(hidden=True)
    assert server.requests == []
    own = models_file(tmp_path, server.url, "own", own=True)
    _, requests = compare(judge=own, baseline="x", hidden=True)
    assert len(requests) == 8 and any(HIDDEN in last_text(each) for each in requests)


def test_unknown_names_end_with_one_line(judged):
    compare = judged()
    with pytest.raises(CurateError, match=r"baseline: no answers of 'z'. Known: reference, x, y"):
        compare(baseline="z")
    with pytest.raises(CurateError, match=r"'c'. Known: b, sampled"):
        compare(bench="c")
    with pytest.raises(CurateError, match="a model is named 'reference'"):
        judged(reference="Me.", y="You.")()
