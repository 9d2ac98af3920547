"""Where every input line went: kept, dropped or rejected, exactly once, with the first reason.

A chat line stands for its conversation when it holds the final state, a vote line for its battle. A line that a
later one replaced (a conversation grew, an answer was regenerated, a vote was cast again) is dropped as
`superseded`; a share line repeats what votes hold and is dropped as `share_record`.
"""

from collections import Counter

import polars as pl

from schemas.run import Funnel
from tasks.tables import Store

SUPERSEDED, SHARE = "superseded", "share_record"
_VOTES = ["leftvote", "rightvote", "tievote", "bothbad_vote"]


def line_fates(store: Store) -> pl.DataFrame:
    """source, line, fate (kept, dropped, rejected) and reason (null when kept) of every line, once each."""
    return _fates(store).drop("held")


def _fates(store: Store) -> pl.DataFrame:
    """`line_fates`, and whether nothing but a review stands between the line and its release."""
    lines = store.read("sightings", ["source", "line", "record_type"]).unique(["source", "line"])
    is_vote = pl.col("record_type").is_in(_VOTES)
    own = _judged(lines.filter(~is_vote), store, "conversations", "conversation_id", "conversation")
    votes = _judged(lines.filter(is_vote), store, "battles", "battle_id", "battle")
    rejected = (
        store.read("rejects", ["source", "line", "reason"])
        .filter(pl.col("line").is_not_null())
        .select("source", "line", fate=pl.lit("rejected"), reason="reason", held=pl.lit(False))
    )
    return pl.concat([own, votes, rejected]).sort("source", "line")


def _judged(lines: pl.DataFrame, store: Store, table: str, item: str, kind: str) -> pl.DataFrame:
    items = store.read(table, [item, "source", "line"])
    decisions = store.read("decisions", ["item_kind", "item_id", "keep", "reasons", "held"]).filter(item_kind=kind)
    judged = lines.join(items, on=["source", "line"], how="left").join(
        decisions, left_on=item, right_on="item_id", how="left"
    )
    # A share line may be all that is known of two conversations; it is kept when either is.
    judged = judged.sort("keep", item, descending=[True, False], nulls_last=True)
    judged = judged.unique(["source", "line"], keep="first", maintain_order=True)
    replaced = pl.when(record_type="share").then(pl.lit(SHARE)).otherwise(pl.lit(SUPERSEDED))
    keep = pl.col("keep").fill_null(False)
    return judged.select(
        "source",
        "line",
        fate=pl.when(keep).then(pl.lit("kept")).otherwise(pl.lit("dropped")),
        reason=pl.when(~keep).then(pl.coalesce(pl.col("reasons").list.first(), replaced)),
        held=pl.col("held").fill_null(False),
    )


def funnel(store: Store) -> Funnel:
    """Counts of `line_fates`. Raises AssertionError when they do not add up, because then nothing may be released."""
    fates = _fates(store)
    counts = Counter(fates["fate"])
    by_reason = Counter(fates.filter(pl.col("reason").is_not_null()).select("fate", "reason").iter_rows())
    assert sum(counts.values()) == fates.select("source", "line").n_unique(), "a line has two fates"
    return Funnel(
        lines=fates.height,
        kept=counts["kept"],
        dropped=counts["dropped"],
        rejected=counts["rejected"],
        dropped_by=_sorted(by_reason, "dropped"),
        rejected_by=_sorted(by_reason, "rejected"),
        held=int(fates["held"].sum()),
    )


def _sorted(counts: Counter[tuple[str, str]], fate: str) -> dict[str, int]:
    chosen = {reason: count for (of_fate, reason), count in counts.items() if of_fate == fate}
    return dict(sorted(chosen.items(), key=lambda pair: (-pair[1], pair[0])))
