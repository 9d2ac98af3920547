"""Files of the demo: answers of which a stronger model says more, and written items with planted faults."""

import csv
import hashlib
import json

from schemas.benches.bench import BenchItem
from tasks.demo.answers import BASELINE, SENTENCES, demo_answers, write_answers
from tasks.demo.items import files_of, write_demo_items
from tasks.demo.records import models
from tasks.judging.files.answer_files import read_answers
from tasks.judging.questions import bench_of_store
from tasks.written_bench.item_files import load_families, read_items
from tests.builders import conversation, decision, drawn_image, image, store_with

PROMPTS = 20


def _store(folder):
    """Twenty prompts, each on an image of its own, about which four sentences were logged."""
    images = [drawn_image(seed) for seed in range(PROMPTS)]
    said = [" ".join(f"Thing {n} has part {part}." for part in range(SENTENCES)) for n in range(PROMPTS)]
    asked = [
        conversation(f"q{n:02d}", f"What is it, number {n}?", said[n], image_ids=[images[n].image_id])
        for n in range(PROMPTS)
    ]
    return store_with(
        folder,
        conversations=asked,
        decisions=[decision(each) for each in asked],
        images=[image(each) for each in images],
        bench=[BenchItem(conversation_id=e.conversation_id, document_id=e.document_id, topic=0) for e in asked],
    )


def test_stronger_models_say_more_that_is_right_and_nothing_longer(tmp_path):
    answers = demo_answers(_store(tmp_path), 0)
    assert list(answers) == [model.name for model in models()]
    right = [
        sum(text.count(f"Thing {int(asked[1:])} ") for asked, text in of_model.items()) / (PROMPTS * SENTENCES)
        for of_model in answers.values()
    ]
    assert right[0] > 0.85 > 0.5 > right[-1]
    assert {text.count(".") for of_model in answers.values() for text in of_model.values()} == {SENTENCES}


def test_answer_files_are_the_same_again_and_are_read_as_answers_of_every_model(tmp_path):
    store = _store(tmp_path)
    for folder in ("one", "two"):
        write_answers(demo_answers(store, 0), tmp_path / folder)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in files)
    read = read_answers(tmp_path / "one", bench_of_store(store, hidden=False).questions)
    assert (len(read.answers), BASELINE in {each.model for each in read.answers}) == (len(models()) * PROMPTS, True)
    assert json.loads((tmp_path / "one" / files[0]).read_text().splitlines()[0])["question_id"] == "q00"


def test_items_are_readable_reproducible_and_planted(tmp_path):
    digests = []
    for name in ("a", "b"):
        write_demo_items(tmp_path / name, 24, 0)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        digests.append([hashlib.sha256(path.read_bytes()).hexdigest() for path in files])
    assert digests[0] == digests[1] and len(digests[0]) == 24 + 2 + 4 + 3  # two items have two pictures
    files = files_of(tmp_path / "a")
    items = read_items(files["items"], load_families())
    assert {item.problem for item in items} == {""} and len({item.family for item in items}) == 11
    faults = {fact["item_id"]: fact["fault"] for fact in map(json.loads, files["expected"].read_text().splitlines())}
    assert sorted(faults.values()) == ["caption"] * 2 + ["reference"] * 4
    rated = list(csv.DictReader(files["raters"].read_text().splitlines()))
    careful = [row for row in rated if row["rater"] in ("ann", "bea")]
    assert all((row["correct"] == "no") == (row["item"] in faults) for row in careful)
    assert {row["correct"] for row in rated if row["rater"] == "dan"} == {"yes"}
