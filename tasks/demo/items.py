"""Items as people would write them about drawings, with planted faults: for a written benchmark of invented content.

In: a folder, a number and a seed. Out: `items.csv` and `images/`, a sheet that raters filled in, items with known
answers for their qualification, answers of three invented models, and `expected.jsonl`, which names the planted faults.
"""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tasks.demo.drawings import FAMILIES
from tasks.demo.words import chance, load
from tasks.storage.content_id import combined_id, text_id

BENCH = "drawn"
"""Name of the benchmark."""
INVENTED_MODELS = {"sable-1": 0.9, "tern-1": 0.6, "wren-1": 0.25}
"""Invented model -> share of items that it answers rightly."""
CARELESS_RATER = "dan"
_RATERS = {"ann": 0.0, "bea": 0.0, "cat": 0.05}
"""Rater -> share of findings that are slips. Beside them, `dan` calls everything correct."""
_THIN_EVERY, _WRONG_EVERY, _KNOWN_EVERY, _PAIR_EVERY = 12, 6, 10, 10
_FILES = {"items": "items.csv", "raters": "raters.csv", "known": "known.csv", "expected": "expected.jsonl"}


class DemoItem(NamedTuple):
    """One item, and what is wrong with it."""

    key: str
    """Id in the file of items."""
    family: str
    instruction: str
    images: list[str]
    captions: list[str]
    reference: str
    right: str
    """The right reference."""
    fault: str
    """caption, reference, or empty."""

    @property
    def item_id(self) -> str:
        """The id it gets in a store."""
        return combined_id("item", [BENCH, self.key])


def write_demo_items(folder: Path, count: int, seed: int) -> list[DemoItem]:
    """Write the files; the same number and seed give the same bytes."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    items = [_item(folder / "images", number, seed) for number in range(count)]
    wrong = [_planted(item, number, items) for number, item in enumerate(items)]
    _write_csv(folder / _FILES["items"], map(_row, wrong))
    _write_csv(folder / _FILES["raters"], (row for item in wrong for row in _rated(item, seed)))
    qualification_items = [
        item for number, item in enumerate(wrong) if number % _KNOWN_EVERY == 0 or number < _WRONG_EVERY
    ]
    tasks = ({"item": item.item_id, "correct": "no" if item.fault else "yes"} for item in qualification_items)
    _write_csv(folder / _FILES["known"], tasks)
    facts = ({"item_id": item.item_id, "fault": item.fault} for item in wrong if item.fault)
    (folder / _FILES["expected"]).write_text("".join(json.dumps(fact) + "\n" for fact in facts), encoding="utf-8")
    _write_answers(folder / "answers", wrong, seed)
    return wrong


def files_of(folder: Path) -> dict[str, Path]:
    """items, raters, known and expected -> file."""
    return {name: folder / file for name, file in _FILES.items()}


def _item(folder: Path, number: int, seed: int) -> DemoItem:
    """A sound item about one drawing, every tenth about two."""
    kinds: dict[str, dict[str, str]] = load("items")
    name = sorted(kinds)[number % len(kinds)]
    kind, drawings = kinds[name], 2 if number % _PAIR_EVERY == _PAIR_EVERY - 1 else 1
    names, facts = [], []
    for place in range(drawings):
        drawn = FAMILIES[name](chance(seed, "item", str(number), str(place)))
        names.append(f"{number:03d}-{place}.png")
        drawn.image.convert("RGB").save(folder / names[-1])
        facts.append(drawn.facts)
    captions = [kind["caption"].format(**words) for words in facts]
    answers = [kind["reference"].format(**words) for words in facts]
    about_two = drawings == 2
    instruction = f"Answer for both pictures: {kind['instruction']}" if about_two else kind["instruction"]
    right = " ".join(f"Picture {n}: {text}" for n, text in enumerate(answers, 1)) if about_two else answers[0]
    return DemoItem(f"d{number:03d}", kind["family"], instruction, names, captions, right, right, "")


def _planted(item: DemoItem, number: int, items: Sequence[DemoItem]) -> DemoItem:
    """The item with a fault, if it gets one: a caption that says too little, or the reference of another item."""
    if number % _THIN_EVERY == _THIN_EVERY - 1:
        kinds: dict[str, dict[str, str]] = load("items")
        thin = kinds[sorted(kinds)[number % len(kinds)]]["thin"]
        return item._replace(captions=[thin] * len(item.images), reference="It cannot be told.", fault="caption")
    if number % _WRONG_EVERY == _WRONG_EVERY - 2:
        other = items[(number + 1) % len(items)]
        return item._replace(reference=other.right, fault="reference")
    return item


def _row(item: DemoItem) -> dict[str, str]:
    return {
        "id": item.key, "family": item.family, "instruction": item.instruction, "images": json.dumps(item.images),
        "licence": "CC0", "author": "drawn by curate demo", "captions": json.dumps(item.captions, ensure_ascii=False),
        "reference": item.reference,
    }  # fmt: skip


def _rated(item: DemoItem, seed: int) -> Iterable[dict[str, str]]:
    """Findings of the raters on an item: careful ones slip at times, one calls everything correct."""
    shared_cells = {"item": item.item_id, "reference_id": text_id(item.reference), "harmful": "no"}
    for rater, slips in _RATERS.items():
        slip = chance(seed, "rater", rater, item.key).random() < slips
        correct = bool(item.fault) if slip else not item.fault
        yield shared_cells | {
            "rater": rater,
            "correct": "yes" if correct else "no",
            "fault": "" if correct else item.fault,
        }
    yield shared_cells | {"rater": CARELESS_RATER, "correct": "yes", "fault": ""}


def _write_answers(folder: Path, items: Sequence[DemoItem], seed: int) -> None:
    """`<model>.jsonl` with question_id, model and text; a wrong answer is right for another item."""
    folder.mkdir(exist_ok=True)
    for model, share in INVENTED_MODELS.items():
        lines = []
        for number, item in enumerate(items):
            right = chance(seed, "answers", model, item.key).random() < share
            text = item.right if right else items[(number + 5) % len(items)].right
            lines.append(json.dumps({"question_id": item.item_id, "model": model, "text": text}, ensure_ascii=False))
        (folder / f"{model}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_csv(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    all_rows = list(rows)
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, all_rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(all_rows)
