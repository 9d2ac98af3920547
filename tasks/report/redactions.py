"""What was taken out of what is released."""

import polars as pl

from tasks.report.figures import bars
from tasks.report.part import Part
from tasks.tables import Store


def redactions_part(store: Store) -> Part | None:
    """Kept conversations by what was taken out of their messages and pictures; None when nothing was."""
    parts = [_counted(rows) for rows in store.read_slices("decisions", ["item_kind", "item_id", "keep", "redactions"])]
    redacted = sum(conversations for conversations, _ in parts)
    if redacted == 0:
        return None
    table = (
        pl.concat([each for _, each in parts])
        .group_by("part", "type")
        .agg(pl.col("conversations", "replaced").sum())
        .sort("conversations", "part", "type", descending=[True, False, False])
    )
    figure = bars({f"{kind} ({part})": n for part, kind, n, _ in table.iter_rows()}, "conversations")
    about = (
        f"Personal data that was taken out of {redacted:,} kept conversations: stretches of messages "
        "that became placeholders, boxes of pictures that were filled. The finders found none of it afterwards."
    )
    return Part("redactions", "What was redacted", about, table, figure)


def _counted(decisions: pl.DataFrame) -> tuple[int, pl.DataFrame]:
    """Of some decisions, each about another item: conversations that were redacted, and what of them."""
    kept = decisions.filter("keep", item_kind="conversation").select("item_id", "redactions")
    each = kept.explode("redactions").drop_nulls("redactions").unnest("redactions")
    conversations, replaced = pl.col("item_id").n_unique().cast(pl.Int64), pl.col("count").sum().cast(pl.Int64)
    table = each.group_by("part", "type").agg(conversations=conversations, replaced=replaced)
    return each["item_id"].n_unique(), table
