"""A judge that sees no image: captions, both orders, four states of a verdict, and none is paid twice."""

import json
from datetime import timedelta

import polars as pl
import pytest

from schemas.errors import CurateError
from tasks.judging.visit_battles import visit_battles, visit_verdicts
from tasks.written_bench.written_items import items_for_judging
from tests.asked_bench import completed, evaluating, last_text, models_file, said_by
from tests.builders import NOON, VERSIONS, conversation, decision, drawn_image, store_with
from tests.http_server import Reply
from tests.visit_bench import HIDDEN, stored_answer, visit_bench
from tests.written import caption, written_item

pytest.importorskip("openai", reason="production extra")
from tasks.judging.steps import collect_verdicts


def _json(better, reasons="Both were read."):
    return json.dumps({"reasons": reasons, "better": better})


@pytest.fixture
def server(http_server, monkeypatch):
    monkeypatch.setenv("CURATE_CALLS_AT_ONCE", "1")
    http_server.answer(Reply(completed(_json("A"))))
    return http_server


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


def test_items_whose_pictures_were_not_given_are_judged_by_captions_and_by_nothing_else(server, tmp_path):
    lost, given = ["image_missing"], [drawn_image(1).image_id]
    asked = {
        "sound": (lost, [], ["image_unusable"], 2), "wrong": (lost, [], ["image_unusable", "incorrect_item"], 2),
        "broken": (["image_truncated"], [], ["image_unusable"], 2), "short": (lost, [], ["image_unusable"], 3),
        "partly": (lost, given, ["image_unusable"], 2),
    }  # fmt: skip
    chats = {
        name: conversation(name, f"What is {name}?", "", image_problems=problems, image_ids=ids)
        for name, (problems, ids, _, _) in asked.items()
    }
    store = store_with(
        tmp_path / "store",
        conversations=list(chats.values()),
        decisions=[decision(chats[name], *reasons) for name, (_, _, reasons, _) in asked.items()],
        bench_items=[
            written_item(chats[name], split="validation", images=images) for name, (_, _, _, images) in asked.items()
        ],
        captions=[caption(chat, f"A cup, {place}.", place) for chat in chats.values() for place in range(2)],
        answers=[stored_answer(chat, model, f"{model} says.") for chat in chats.values() for model in ("x", "y")],
    )
    judge = models_file(tmp_path, server.url, "judge")
    report = collect_verdicts.fn(evaluating(store, judge=judge, protocol="visit", bench="b"), VERSIONS)
    assert set(store.read("verdicts")["question_id"]) == {"sound"} and len(server.requests) == 2
    assert (report.counts["items_images_not_given"], report.counts["items_no_caption"]) == (1, 1)
    assert visit_battles(visit_verdicts(store, "b")).height == 1
    assert items_for_judging(store, "b") == []  # what a release, raters and models with eyes are given


def test_one_judge_with_generic_captions_is_shown_beside_those_for_the_instruction(judged, server, curate):
    compare, root = judged(items=3), ("--bench", "b", "--table", "captions", "--json")
    server.answer(Reply(said_by(_by_words)))
    compare(baseline="x")
    assert "no verdicts on benchmark 'b'" in curate("judge", "board", "--store", compare.store.root, *root)[2]
    captions = compare.store.read("captions").filter(pl.col("item_id") != HIDDEN)
    generic = captions.with_columns(text=pl.lit("a photo of a thing"), document_id="document_id")
    compare.store.append("generic_captions", generic)
    server.answer(Reply(said_by(lambda text: _json("A") if "i1" in text else _by_words(text))))
    _, requests = compare(baseline="x", captions="generic")
    assert len(requests) == 12 and all("a photo of a thing" in last_text(each) for each in requests)
    code, out, err = curate("judge", "board", "--store", compare.store.root, *root)
    assert code == 0, err
    rows = {row["model"]: row for row in map(json.loads, out.splitlines())}
    shares = {name: (row["battles"], row["won"], row["won_generic"]) for name, row in rows.items()}
    assert rows[None]["same_outcome"] == pytest.approx(5 / 6)  # with generic captions `i1` is a tie
    assert shares["y"] == (3, 1.0, pytest.approx(5 / 6))
    assert list(rows) == [None, "reference", "x", "y"]


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
