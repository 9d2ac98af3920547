"""What was taken out of what is released."""

import polars as pl

from tasks.report.figures import bars
from tasks.report.part import Part
from tasks.tables import Store


def redactions_part(store: Store) -> Part | None:
    """Kept conversations by what was taken out of their messages and pictures; None when nothing was."""
    kept = store.read("decisions", ["item_kind", "item_id", "keep", "redactions"]).filter(
        "keep", item_kind="conversation"
    )
    each = kept.select("item_id", "redactions").explode("redactions").drop_nulls("redactions").unnest("redactions")
    if each.is_empty():
        return None
    table = (
        each.group_by("part", "type")
        .agg(conversations=pl.col("item_id").n_unique().cast(pl.Int64), replaced=pl.col("count").sum().cast(pl.Int64))
        .sort("conversations", "part", "type", descending=[True, False, False])
    )
    figure = bars({f"{kind} ({part})": n for part, kind, n, _ in table.iter_rows()}, "conversations")
    about = (
        f"Personal data that was taken out of {each['item_id'].n_unique():,} kept conversations: stretches of messages "
        "that became placeholders, boxes of pictures that were filled. The finders found none of it afterwards."
    )
    return Part("redactions", "What was redacted", about, table, figure)
