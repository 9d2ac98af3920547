"""Demo answers: a stronger model says more about the prompt's own image, in files that `curate judge answer` reads."""

import json

from schemas.bench import BenchItem
from tasks.demo.answers import BASELINE, SENTENCES, demo_answers, write_answers
from tasks.demo.records import models
from tasks.judging.files.answer_files import read_answers
from tasks.judging.questions import bench_of_store
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
