"""Preferences of people between two answers to an item: drawn uniformly, sides by hash, a forced choice, then battles.

A sheet has no model and no id of the store. Its items are hashes of an item with two answers, and each hash says which
is on the left, so that a filled-in sheet needs nothing but the store to be read.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import polars as pl

from schemas.errors import BadInput
from schemas.written import Split
from tasks.agreement.sheets import CELL_CHARACTERS_MAX, COLUMNS, image_files, is_swapped, read_rows
from tasks.agreement.text_metrics.stored import Stored
from tasks.bench.written.written_items import ItemForJudging
from tasks.evaluate.visit_battles import REFERENCE
from tasks.runtime.untrusted import csv_text, one_line
from tasks.storage.content_id import combined_id
from tasks.storage.keyed_ids import Pseudonyms
from tasks.storage.tables import Store

BATTLES = {
    "question_id": pl.String,
    "model_a": pl.String,
    "model_b": pl.String,
    "winner": pl.String,
    "judge": pl.String,
}
"""A battle table, as `curate rate` reads it; `judge` is the rater's keyed hash, or null."""
SIDES = ("left", "right")


class Tuple(NamedTuple):
    """Two answers to one item."""

    sheet_item: str
    """Hash of the item with both answers."""
    item: ItemForJudging
    left: str
    """Model on the left."""
    right: str
    """Model on the right."""


def tuples(items: Sequence[ItemForJudging], known: Stored, hidden: bool) -> list[Tuple]:
    """Every two players with different words on an item; hidden items only where they may leave the store."""
    found = []
    for item in items:
        if item.split is Split.HIDDEN and not hidden:
            continue
        said = {model: text for (name, model), text in known.answers.items() if name == item.item_id and text.strip()}
        said |= {REFERENCE: known.references[item.item_id]} if item.item_id in known.references else {}
        for one, other in combinations(sorted(said), 2):
            if said[one].split() == said[other].split():
                continue  # nobody can prefer one of them
            sheet_item = combined_id("preference", [item.item_id, one, said[one], other, said[other]])[:16]
            sides = (other, one) if is_swapped(sheet_item) else (one, other)
            found.append(Tuple(sheet_item, item, *sides))
    return found


def drawn(every: Sequence[Tuple], count: int, seed: int) -> list[Tuple]:
    """So many of them, uniformly, without replacement and in the order of the draw: by a hash, never by a name."""
    return sorted(every, key=lambda each: combined_id("drawn preference", [str(seed), each.sheet_item]))[:count]


def write_preferences(store: Store, chosen: Sequence[Tuple], known: Stored, folder: Path) -> int:
    """Write `sheet.csv` and its images into a folder; returns the number of images. Raises BadInput if one is there."""
    file = folder / "sheet.csv"
    if file.exists():
        raise BadInput(f"{str(file)!r} exists, and may be filled in; give another folder as --out")
    images = image_files(store, {image_id for each in chosen for image_id in each.item.image_ids})
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for name, content in images.values():
        (folder / "images" / name).write_bytes(content)
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(COLUMNS)
    for each in chosen:
        texts = (each.item.instruction, *(_text(known, each.item.item_id, side) for side in (each.left, each.right)))
        names = " ".join(images[image_id][0] for image_id in each.item.image_ids)
        writer.writerow([each.sheet_item, names, *(csv_text(text, CELL_CHARACTERS_MAX) for text in texts), ""])
    file.write_text(sink.getvalue(), encoding="utf-8")
    return len(images)


def _text(known: Stored, item_id: str, model: str) -> str:
    return known.references[item_id] if model == REFERENCE else known.answers[item_id, model]


class Preferred(NamedTuple):
    """Filled-in sheets as battles."""

    battles: pl.DataFrame
    """`BATTLES`."""
    unknown: int
    """Choices on answers that the store does not have any more."""
    open: int
    """Rows without a choice."""


class Choice(NamedTuple):
    """What one rater said about two answers."""

    where: str
    """File and line, or the review pages; for messages."""
    sheet_item: str
    rater: str
    """Empty when nobody said who it was."""
    label: str
    """left, right, or empty."""


def preferred(choices: Iterable[Choice], every: Sequence[Tuple], people: Pseudonyms) -> Preferred:
    """The choices of raters as battles.

    Raises BadInput for a label other than left or right (a tie is no choice), and for a rater who votes twice.
    """
    known = {each.sheet_item: each for each in every}
    rows, seen, unknown, open_rows = list[tuple[str | None, ...]](), set[tuple[str, str]](), 0, 0
    for where, name, rater, label in choices:
        if not label:
            open_rows += 1
        elif label not in SIDES:
            raise BadInput(f"{where}: {one_line(label, 40)!r} is no choice; give left or right")
        elif name not in known:
            unknown += 1
        elif rater and (rater, name) in seen:
            raise BadInput(f"{where}: rater {one_line(rater, 40)!r} votes on {name!r} twice")
        else:
            seen.add((rater, name))
            each, winner = known[name], ("model_a", "model_b")[SIDES.index(label)]
            rows.append((each.item.item_id, each.left, each.right, winner, people.user_id(rater)))
    if not rows:
        raise BadInput(f"nobody has chosen between answers of this store ({unknown:,} choices are on others)")
    return Preferred(pl.DataFrame(rows, schema=BATTLES, orient="row"), unknown, open_rows)


def choices_of(files: Sequence[Path]) -> Iterator[Choice]:
    """The rows of sheets: each is one rater's, after whom it is named, unless it has a column rater."""
    for file in files:
        for line, row in enumerate(read_rows(file), 2):
            rater = row.get("rater", file.stem) or ""
            label = " ".join((row["label"] or "").lower().split())
            yield Choice(f"sheet {str(file)!r}, line {line}", row["item"], rater.strip(), label)


def majority_counts(battles: pl.DataFrame) -> Mapping[int, int]:
    """Number of votes on two answers -> how many pairs of answers have it."""
    counted = battles.group_by("question_id", "model_a", "model_b").len()["len"]
    return {int(votes): int(count) for votes, count in counted.value_counts().sort("len").iter_rows()}
