"""Answers written from captions: what their author reads, what people see of them, and the share of right ones."""

import json

import pytest

from schemas.items.review import QueueName
from tasks.judging.answers import ask_models
from tasks.judging.caption_answers import CaptionAnswersQueue, caption_answers, caption_bench, right_answers
from tasks.judging.sources import bench_of
from tasks.providers.asked_models import models_of
from tasks.review_queue import review_of
from tasks.storage.reviews import add_reviews
from tasks.storage.tables import frame_of
from tests.asked_bench import evaluating, last_text, models_file, said_by
from tests.builders import NOON
from tests.http_server import Reply
from tests.visit_bench import HIDDEN, visit_bench
from tests.written import Caption

pytest.importorskip("openai", reason="production extra")
GENERIC = "Some things on a table."


@pytest.fixture
def server(http_server, monkeypatch):
    monkeypatch.setenv("CURATE_CALLS_AT_ONCE", "1")
    http_server.answer(Reply(said_by(lambda text: "A table." if GENERIC in text else "A cup.")))
    return http_server


@pytest.fixture
def store(tmp_path):
    """Two items and a hidden one with captions for their instruction and generic ones; a model saw the images."""
    store = visit_bench(tmp_path / "store", {"seer": "A cup."}, 2)
    rows = store.read("captions").iter_rows(named=True)
    generic = [Caption(**row | {"text": GENERIC}) for row in rows]
    store.replace("generic_captions", frame_of(Caption, generic))
    return store


def answer(store, server, folder, captions):
    """A model answers from these captions; returns the texts that it was sent."""
    before = len(server.requests)
    models = models_file(folder, server.url, "reader")
    chosen = evaluating(store, models=models, bench="b", answer_from="captions", captions=captions).evaluate
    assert not ask_models(store, bench_of(store, chosen), models_of(chosen)).failures
    return server.requests[before:]


def test_a_model_reads_the_chosen_captions_in_place_of_images_once(store, server, tmp_path):
    own, generic = (answer(store, server, tmp_path, captions) for captions in ("instruction", "generic"))
    assert [GENERIC in last_text(request) for request in (*own, *generic)] == [False, False, True, True]
    assert all("image_url" not in json.dumps(request["messages"]) for request in (*own, *generic))
    texts = [last_text(request) for request in own]
    assert "Caption of image 2:" in texts[0] and "What is in i0?" in texts[0] and "A cup, 1." in texts[1]
    assert not any(HIDDEN in last_text(request) for request in (*own, *generic))
    assert answer(store, server, tmp_path, "generic") == []


def test_answers_from_captions_are_none_of_the_benchmark_itself(store, server, tmp_path):
    answer(store, server, tmp_path, "generic")
    seen = bench_of(store, evaluating(store, bench="b").evaluate)
    read = caption_bench(store, "b", "generic")
    assert not {each.document_id for each in seen.questions} & {each.document_id for each in read.questions}
    assert {(each.model, each.captions, each.text) for each in caption_answers(store, "b")} == {
        ("reader", "generic", "A table.")
    }


def test_a_caption_that_was_written_anew_makes_earlier_answers_no_answers(store, server, tmp_path):
    answer(store, server, tmp_path, "generic")
    newer = [Caption(**row | {"text": "A cup."}) for row in store.read("generic_captions").iter_rows(named=True)]
    store.replace("generic_captions", frame_of(Caption, newer))
    assert caption_answers(store, "b") == []


def test_the_share_of_right_answers_is_told_for_both_sets_of_captions(store, server, tmp_path, curate):
    for captions in ("instruction", "generic"):
        answer(store, server, tmp_path, captions)
    queue = CaptionAnswersQueue("b", 9, 0)
    items = queue.waiting(store)
    assert len(items) == 4 and not any("aption" in text.heading for item in items for text in item.texts)
    for item in items:
        truth = "right" if item.texts[-1].stretches[0].text == "A cup." else "wrong"
        add_reviews(store, [review_of(queue, item, truth, "ann", NOON)])
    rows = right_answers(store, "b")
    assert [(row.captions, row.model, row.answers, row.right, row.share) for row in rows] == [
        ("instruction", "reader", 2, 2, 1.0), ("generic", "reader", 2, 0, 0.0),
    ]  # fmt: skip
    unsure = [review_of(queue, item, "unclear", "bob", NOON) for item in items[:1]]
    add_reviews(store, unsure)
    assert sum(row.unclear for row in right_answers(store, "b")) == 1
    asked = ("--store", store.root, "--bench", "b")
    code, out, err = curate("review", "results", QueueName.CAPTION_ANSWERS.value, *asked, "--json")
    assert code == 0, err
    assert [json.loads(line)["captions"] for line in out.splitlines()] == ["instruction", "generic"]
    code, out, err = curate("review", "out", "caption_answers", *asked, "--out", tmp_path / "sheet")
    assert code == 0 and (tmp_path / "sheet/sheet.csv").is_file(), err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--bench", "b"), "no model answered it from captions"),
        (("--bench", "c"), "--bench 'c'. Known: b, sampled"),
        ((), "give --bench NAME"),
    ],
)
def test_a_sheet_without_answers_from_captions_is_one_line(store, refused, tmp_path, options, told):
    sheet = tmp_path / "sheet"
    assert told in refused("review", "out", "caption_answers", *options, "--store", store.root, "--out", sheet)
    assert not sheet.exists()
