"""Items as CSV for raters, what they found read back, and how often a majority of them finds that things fit."""

import csv
import hmac
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import polars as pl

from schemas.errors import BadInput, known_values, why_unreadable
from schemas.generated import GeneratedItem
from schemas.generated_results import ItemReview, ReviewRow
from tasks.bench.generate.accuracy import interval
from tasks.bench.generate.bench_state import BenchState
from tasks.bench.generate.kept_items import FITS, generated_reviews, review_of_generated
from tasks.runtime.untrusted import csv_text
from tasks.storage.keyed_ids import store_key
from tasks.storage.reviews import add_reviews
from tasks.storage.tables import Store

ASKED = FITS
"""Columns that raters fill in with yes or no."""
SHOWN = ("item_id", "level", "aspect", "guideline", "description", "question", "options", "key", "image_id")
CELL_CHARACTERS_MAX = 30_000


def review_csv(made: BenchState, items: Sequence[GeneratedItem], guided: bool) -> str:
    """One line an item with empty columns for the rater; `guided`: with the aspect's guideline."""
    texts = {each.description.description_id: each.description for each in made.progress}
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow([*SHOWN, *ASKED])
    for item in items:
        description = texts[item.description_id]
        guideline = made.aspects[description.aspect].guideline if guided else ""
        options = " | ".join(item.options)
        shown = (
            item.item_id,
            item.level,
            item.aspect,
            guideline,
            description.description,
            item.question,
            options,
            item.key,
            item.image_id,
        )
        writer.writerow([*(csv_text(text, CELL_CHARACTERS_MAX) for text in shown), "", ""])
    return sink.getvalue()


def take_reviews(store: Store, items: Iterable[GeneratedItem], file: Path, rater: str, now: datetime) -> int:
    """Store what one rater found; a later finding replaces an earlier one. Returns the number of items.

    A guideline in a line says that the rater had read it. Raises BadInput, without storing anything, for a line that
    cannot be used.
    """
    if not rater.strip():
        raise BadInput("--rater is empty; give a name that tells this rater from the others; only its hash is stored")
    own = hmac.digest(store_key(store), f"rater {rater.strip()}".encode(), "sha256").hex()[:24]
    given = list(_found(file, {item.item_id for item in items}, own))
    add_reviews(store, [review_of_generated(each, now) for each in given])
    return len({each.item_id for each in given})


def _found(file: Path, known: set[str], rater: str) -> Iterator[ItemReview]:
    try:
        reader = csv.DictReader(io.StringIO(file.read_text(encoding="utf-8-sig")))
        rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"review {str(file)!r} cannot be read ({why_unreadable(error)})") from None
    if not {"item_id", "guideline", *ASKED} <= {*(reader.fieldnames or ())}:
        needs = f"needs the columns item_id, guideline, {', '.join(ASKED)}, as `curate bench review` prints them"
        raise BadInput(f"review {str(file)!r}, line 1: {needs}")
    for number, row in enumerate(rows, 2):
        said = [(row[name] or "").strip().lower() for name in ASKED]
        where = f"review {str(file)!r}, line {number}"
        if not any(said):
            continue
        for name, value in zip(ASKED, said, strict=True):
            if value not in ("yes", "no"):
                raise BadInput(f"{where}: {name} {known_values(value, ('yes', 'no'))}")
        if row["item_id"] not in known:
            raise BadInput(f"{where}: {row['item_id']!r} is no item of this benchmark")
        yes = dict(zip(ASKED, (value == "yes" for value in said), strict=True))
        yield ItemReview(item_id=row["item_id"], rater=rater, guided=bool((row["guideline"] or "").strip()), **yes)


def review_rows(store: Store, items: Sequence[GeneratedItem]) -> list[ReviewRow]:
    """How often a majority of raters says yes, by question, level and whether they had the guideline. A tie is no."""
    levels = {item.item_id: item.level for item in items}
    reviews = generated_reviews(store).filter(pl.col("item_id").is_in(list(levels)))
    rows = []
    for guided in (True, False):
        for asked in ASKED:
            by_item = reviews.filter(guided=guided).group_by("item_id").agg(
                raters=pl.len(), yes=pl.col(asked).sum()
            )  # fmt: skip
            for level in ("all", *dict.fromkeys(levels.values())):
                ids = [item_id for item_id, own in levels.items() if level in ("all", own)]
                of_level = by_item.filter(pl.col("item_id").is_in(ids))
                if of_level.height:
                    rows.append(_row(asked, guided, level, of_level))
    return rows


def _row(asked: str, guided: bool, level: str, by_item: pl.DataFrame) -> ReviewRow:
    fits = int((by_item["yes"] * 2 > by_item["raters"]).sum())
    share, low, high = interval(fits, by_item.height)
    return ReviewRow(
        asked=asked, guided=guided, level=level, items=by_item.height, fits=fits, rate=share, ci95_low=low,
        ci95_high=high, raters_least=int(by_item["raters"].to_numpy().min()),
    )  # fmt: skip
