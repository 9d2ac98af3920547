"""Sheets of battles for experts: drawn evenly over pairs of models, blinded, filled in and read back.

A sheet has no model, no vote and no id of the logs. Its items are hashes of battle ids, and each item's hash says which
side is shown first, so a filled-in sheet needs nothing but the store to be read.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from schemas.errors import BadInput, known_values, why_unreadable
from tasks.agreement.label_files import VOTES, Labels, labels_of
from tasks.evaluate.shown_battles import ShownBattle, shown
from tasks.runtime.untrusted import csv_text, one_line
from tasks.storage.content_id import combined_id
from tasks.storage.queries.images import StoredImages
from tasks.storage.tables import Store

COLUMNS = ("item", "images", "prompt", "left", "right", "label")
_OTHER_SIDE = {"left": "right", "right": "left"}
CELL_CHARACTERS_MAX = 32_000
"""Spreadsheets cut cells off at 32,767 characters."""


def drawn_evenly(battles: pl.DataFrame, per_pair: int) -> pl.DataFrame:
    """At most so many battles of every pair of models, from rows of `anonymous_battles`."""
    pair = pl.concat_list("model_a", "model_b").list.sort()
    return battles.filter(pl.int_range(pl.len()).over(pair) < per_pair)


def item_of(battle_id: str) -> str:
    """The item of a battle in a sheet."""
    return combined_id("sheet", [battle_id])[:16]


def is_swapped(item: str) -> bool:
    """Whether the battle's right side is shown on the left."""
    return int(item[-1], 16) % 2 == 1


def write_sheet(store: Store, battles: pl.DataFrame, folder: Path) -> int:
    """Write `sheet.csv` and the images it names into a folder; returns the number of images.

    Raises BadInput when the folder has a sheet already, or an image is lost.
    """
    file = folder / "sheet.csv"
    if file.exists():
        raise BadInput(f"{str(file)!r} exists, and may be filled in; give another folder as --out")
    drawn = shown(battles)
    images = image_files(store, {image_id for battle in drawn for image_id in battle.image_ids})
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for name, content in images.values():
        (folder / "images" / name).write_bytes(content)
    names = {image_id: name for image_id, (name, _) in images.items()}
    rows = sorted((_row(battle, names) for battle in drawn), key=lambda row: row["item"])
    sink = io.StringIO()
    writer = csv.DictWriter(sink, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    file.write_text(sink.getvalue(), encoding="utf-8")
    return len(images)


def image_files(store: Store, wanted: set[str]) -> dict[str, tuple[str, bytes]]:
    """Image id -> (file name, content). Raises BadInput for an image that is lost."""
    stored, found = StoredImages(store, "images", "redacted_images"), dict[str, tuple[str, bytes]]()
    if lost := sorted(wanted - stored.part_of.keys()):
        raise BadInput(f"image {lost[0]!r} of a drawn battle is lost; put the store's copy back, or decide again")
    for image_id in stored.ordered(wanted):
        image = stored[image_id]
        found[image_id] = (f"{image_id}.{'png' if image.format == 'png' else 'jpg'}", image.bytes)
    return found


def _row(battle: ShownBattle, images: Mapping[str, str]) -> dict[str, str]:
    item = item_of(battle.battle_id)
    sides = (battle.right, battle.left) if is_swapped(item) else (battle.left, battle.right)
    texts = (csv_text(text, CELL_CHARACTERS_MAX) for text in (battle.prompt, *sides))
    names = " ".join(images[image_id] for image_id in battle.image_ids)
    return dict(zip(COLUMNS, (item, names, *texts, ""), strict=True))


def people_of(battles: pl.DataFrame) -> Labels:
    """The people's votes on rows of `anonymous_battles`."""
    return labels_of(
        "people", battles.select(item="question_id", rater=pl.lit("people"), label="winner"), "the battles"
    )


def read_sheet(file: Path, name: str, battle_ids: Sequence[str]) -> Labels:
    """The labels of a filled-in sheet on battles; `name` is the expert's. Rows without a label are no verdict.

    Raises BadInput for a file that is no sheet, an unknown label, and a sheet none of whose items is among the battles.
    """
    battles = {item_of(battle_id): battle_id for battle_id in battle_ids}
    rows = []
    for line, row in enumerate(read_rows(file), 2):
        label = " ".join((row["label"] or "").lower().split())
        if label and label not in (*VOTES.values(), "na"):
            known = known_values(one_line(row["label"], 40), (*VOTES.values(), "NA"))
            raise BadInput(f"sheet {str(file)!r}, line {line}: unknown label {known}")
        rows.append({"item": row["item"], "rater": name, "label": label})
    told = pl.DataFrame(rows, schema={"item": pl.String, "rater": pl.String, "label": pl.String})
    known_rows = told.filter(pl.col("item").is_in(list(battles)))
    if known_rows.is_empty():
        raise BadInput(f"sheet {str(file)!r}: none of its {told.height:,} items is a kept battle of this store")
    swapped = pl.col("item").map_elements(is_swapped, return_dtype=pl.Boolean)
    turned = pl.when(swapped).then(pl.col("label").replace(_OTHER_SIDE)).otherwise("label")
    on_battles = known_rows.select("rater", item=pl.col("item").replace_strict(battles), label=turned)
    return labels_of(name, on_battles, f"sheet {str(file)!r}")


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Rows of a sheet. Raises BadInput for a file that is none."""
    try:
        reader = csv.DictReader(io.StringIO(file.read_text(encoding="utf-8-sig")))
        rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"sheet {str(file)!r} cannot be read ({why_unreadable(error)})") from None
    if not {"item", "label"} <= {*(reader.fieldnames or ())} or any(row["item"] is None for row in rows):
        raise BadInput(f"sheet {str(file)!r} lacks the columns item and label; give sheets of `curate judge sheet`")
    return rows
