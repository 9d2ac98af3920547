"""A submission names its items by id, by the id of the sheet, or by image and instruction."""

import csv
import random

import pytest

from schemas.errors import BadInput
from tasks.judging.files.submission_files import AnswerableItem, read_submission
from tasks.written_bench.item_files import id_of_key, load_families, name_hashes, read_items
from tests.places import DATA, needs_data

SHEETS = DATA / "visit-bench"
IN_SHEETS = {"single-images-even.csv": 284, "multi-images.csv": 50}


def _read(folder, columns, rows, items):
    file = folder / "answers.csv"
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerows([[*columns, "prediction"], *([*row, f"Answer {n}"] for n, row in enumerate(rows))])
    return read_submission(file, "new", items, "b")


def _items(told):
    """Items from (key, family, instruction, names of images)."""
    return [
        AnswerableItem(id_of_key("b", key), family, instruction, f"document {key}", tuple(name_hashes(images)))
        for key, family, instruction, images in told
    ]


def test_items_of_one_instruction_are_told_apart_by_their_images_or_ids_and_by_nothing_else(tmp_path):
    rng = random.Random(5)
    told = [
        (str(n), "Humor", f"What is funny{n % 7}?", [f"picture_{n}_{place}.png" for place in range(rng.randint(1, 3))])
        for n in range(40)
    ]
    items = _items(told)
    right = {item.item_id: f"Answer {n}" for n, item in enumerate(items)}
    places = ("", "https://example.org/a/b/", "images/")
    by_image = [(family, text, str([rng.choice(places) + name for name in images]).replace("'", '"'))
                for _, family, text, images in told]  # fmt: skip
    by_key = [("humor", text, key) for key, _, text, _ in told]
    asked = {
        ("family", "instruction", "images"): by_image,
        ("family", "instruction", "id"): by_key,
        ("id",): [(key,) for key, *_ in told],
    }
    for columns, rows in asked.items():
        read = _read(tmp_path, columns, rows, items)
        assert {answer.question_id: answer.text for answer in read.answers} == right
        assert (read.missing, read.unknown, read.shared, read.double) == ([], [], [], [])
    one = [("Humor", text, "") for _, _, text, _ in told[:7]] + [("Humor", "What is sad?", "")]
    alone = _items([*told, ("x", "Humor", "What is odd?", [])])
    read = _read(tmp_path, ("family", "instruction", "image"), [*one, ("Humor", "What is odd?", "other.png")], alone)
    assert [answer.question_id for answer in read.answers] == [id_of_key("b", "x")]
    assert read.unknown == ["What is sad?"] and len(read.shared) == 7
    assert read.shared[0].startswith(f"{items[0].item_id}, {items[7].item_id}, ")
    with pytest.raises(BadInput, match="8 on instructions of several items") as refused:
        _read(tmp_path, ("family", "instruction"), [each[:2] for each in [*one[:7], one[0]]], items)
    assert "\n" not in str(refused.value)


@needs_data
@pytest.mark.parametrize("sheet", IN_SHEETS)
def test_every_verified_item_of_the_published_sheets_is_matched_by_image_and_instruction(tmp_path, sheet):
    every = read_items(SHEETS / sheet, load_families())
    assert len(every) == IN_SHEETS[sheet]
    verified = [item for item in every if item.found.correct]
    items = _items([(item.key, item.family, item.instruction, item.images) for item in verified])
    rows = [(item.family, item.instruction, str(item.images).replace("'", '"')) for item in verified]
    read = _read(tmp_path, ("instruction_category", "instruction", "images"), rows, items)
    assert len(read.answers) == len(verified)
    before = _read(tmp_path, ("instruction_category", "instruction"), [row[:2] for row in rows], items)
    assert 0 < len(before.answers) == len(verified) - len(before.shared) < len(verified)


@needs_data
def test_published_predictions_are_matched_whole(tmp_path):
    items = read_items(SHEETS / "single-images-even.csv", load_families())
    known = _items([(item.key, item.family, item.instruction, item.images) for item in items])
    for file in sorted((SHEETS / "predictions").glob("*.csv")):
        read = read_submission(file, "new", known, "b")
        assert len(read.answers) + len(read.empty) == 284, file.name
        assert (read.shared, read.unknown, read.double) == ([], [], [])
