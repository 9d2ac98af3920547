"""The section about what people confirmed of the detectors' findings."""

import polars as pl

from tasks.report.figures import rating_intervals
from tasks.report.page import Part, part
from tasks.runtime.untrusted import one_line
from tasks.storage.queries.findings import detector_precisions
from tasks.storage.tables import Store


def reviewed_part(store: Store) -> Part | None:
    """Precision of detectors by provider and type with its interval; None without reviewed findings."""
    rows = [row.model_dump() for row in detector_precisions(store)]
    if not rows:
        return None
    table = pl.DataFrame(rows).with_columns(pl.col("precision", "ci95_low", "ci95_high").round(3))
    names = [f"{row['type']}, {one_line(row['provider'], 40)} ({row['reviewed']:,})" for row in rows]
    precision, low, high = (table[name].to_list() for name in ("precision", "ci95_low", "ci95_high"))
    return part("detector_precision", table, rating_intervals(names, precision, low, high, "precision"))
