"""Pictures that cannot be used -> their rows of `rejects`, which have no line: every line has one fate of its own."""

from collections.abc import Iterator, Sequence

import polars as pl

from schemas.reject import Reject
from tasks.ingest.quarantine import rows_without
from tasks.tables import Store, frame_of


def store_picture_rejects(
    store: Store, missing: Sequence[Reject], present: Sequence[str], taken_in: pl.DataFrame
) -> None:
    """Replace the rejects of pictures: `missing`, those of `present` files that are broken, and names that are none.

    `taken_in` is the newest row of `picture_files` for every file.
    """
    broken = taken_in.filter(pl.col("name").is_in(present) & pl.col("problem").is_not_null())
    rows = [
        Reject(source=row["name"], line=None, reason=row["problem"], evidence=row["evidence"])
        for row in broken.iter_rows(named=True)
    ]
    parts = rows_without(store, "rejects", store.parts("rejects"), pl.col("line").is_null(), ["line"])
    pictures = frame_of(Reject, [*missing, *rows, *_bad_names(store)])
    store.list_parts("rejects", [*parts, *([store.write_part("rejects", pictures)] if pictures.height else [])])


def _bad_names(store: Store) -> Iterator[Reject]:
    """Names that lines give pictures and that are no names; they are not quoted, for a user may have chosen them."""
    wrong = pl.col("picture_problems").list.len() > 0
    for part in store.parts("sightings"):
        if not store.read_part("sightings", part, ["picture_problems"]).select(wrong.any()).item():
            continue
        rows = store.read_part("sightings", part, ["source", "line", "picture_problems"]).filter(wrong)
        each = rows.explode("picture_problems").unique().sort(rows.columns)
        for source, line, reason in each.iter_rows():
            yield Reject(source=source, line=None, reason=reason, evidence=f"a picture name on line {line}")
