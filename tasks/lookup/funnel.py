"""Where every input line went: kept, dropped or rejected, exactly once, with the first reason.

A chat line stands for its conversation when it holds the final state, a vote line for its battle. A line that a
later one replaced (a conversation grew, an answer was regenerated, a vote was cast again) is dropped as
`superseded`; a share line repeats what votes hold and is dropped as `share_record`.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain

import polars as pl

from schemas.run import Funnel
from tasks.store.spooled_frames import in_shares
from tasks.tables import Store

SUPERSEDED, SHARE = "superseded", "share_record"
SHARE_LINES = 262_144
"""Log lines, or conversations' states in them, that are judged at once."""
_FATES = ("kept", "dropped", "rejected")
_LINE = ["source", "line"]
_VOTES = ["leftvote", "rightvote", "tievote", "bothbad_vote"]


def line_fates(store: Store) -> pl.DataFrame:
    """source, line, fate (kept, dropped, rejected) and reason (null when kept) of every line, once each."""
    return pl.concat(_fates(store)).drop("held").sort("source", "line")


def _fates(store: Store) -> Iterator[pl.DataFrame]:
    """`line_fates`, and whether nothing but a review stands between the line and its release, in several frames.

    Lines and what is known of them go to shares on disk by a hash of the line, so that memory holds one share.
    """
    seen = sum(rows.height for rows in store.read_slices("sightings", ["line"]))
    count = 1 + seen // SHARE_LINES
    lines = in_shares(_read(store, "sightings", [*_LINE, "record_type"]), _LINE, count)
    chats = in_shares(_decided(store, "conversations", "conversation_id", count), _LINE, count)
    votes = in_shares(_decided(store, "battles", "battle_id", count), _LINE, count)
    rejects = in_shares(_read(store, "rejects", [*_LINE, "reason"]), _LINE, count)
    for share in range(count):
        once = lines.read(share).unique(_LINE)
        is_vote = pl.col("record_type").is_in(_VOTES)
        own, of_votes = (
            _judged(once.filter(~is_vote), chats.read(share)),
            _judged(once.filter(is_vote), votes.read(share)),
        )
        rejected = rejects.read(share).filter(pl.col("line").is_not_null())
        fates = rejected.select(*_LINE, fate=pl.lit("rejected"), reason="reason", held=pl.lit(False))
        yield pl.concat([own, of_votes, fates])


def _decided(store: Store, table: str, item: str, count: int) -> Iterator[pl.DataFrame]:
    """item_id, source and line of every item, with keep, reason and held; null where nothing was decided."""
    columns = ["item_id", "item_kind", "keep", "reasons", "held"]
    of_kind = (rows.filter(item_kind=table[:-1]) for rows in _read(store, "decisions", columns))
    first = pl.col("reasons").list.first().alias("reason")
    decisions = in_shares((rows.select("item_id", "keep", first, "held") for rows in of_kind), ["item_id"], count)
    named = (rows.rename({item: "item_id"}) for rows in _read(store, table, [item, *_LINE]))
    items = in_shares(named, ["item_id"], count)
    for share in range(count):
        yield items.read(share).join(decisions.read(share), on="item_id", how="left")


def _read(store: Store, table: str, columns: list[str]) -> Iterator[pl.DataFrame]:
    """A table some rows at a time, after a frame without rows."""
    return chain([store.empty(table, columns)], store.read_slices(table, columns))


def _judged(lines: pl.DataFrame, items: pl.DataFrame) -> pl.DataFrame:
    judged = lines.join(items, on=_LINE, how="left")
    # A share line may be all that is known of two conversations; it is kept when either is.
    judged = judged.sort("keep", "item_id", descending=[True, False], nulls_last=True)
    judged = judged.unique(_LINE, keep="first", maintain_order=True)
    replaced = pl.when(record_type="share").then(pl.lit(SHARE)).otherwise(pl.lit(SUPERSEDED))
    keep = pl.col("keep").fill_null(False)
    return judged.select(
        *_LINE,
        fate=pl.when(keep).then(pl.lit("kept")).otherwise(pl.lit("dropped")),
        reason=pl.when(~keep).then(pl.coalesce("reason", replaced)),
        held=pl.col("held").fill_null(False),
    )


def funnel(store: Store) -> Funnel:
    """Counts of `line_fates`. Raises AssertionError when they do not add up, because then nothing may be released."""
    counts: Counter[tuple[str, str | None]] = Counter()
    held = lines = 0
    for fates in _fates(store):
        for fate, reason, number in fates.group_by("fate", "reason").len().iter_rows():
            counts[fate, reason] += number
        held += int(fates["held"].sum())
        lines += fates.select(_LINE).n_unique()
    assert sum(counts.values()) == lines, "a line has two fates"
    by_fate = {name: sum(n for (fate, _), n in counts.items() if fate == name) for name in _FATES}
    return Funnel(
        lines=lines,
        **by_fate,
        dropped_by=_sorted(counts, "dropped"),
        rejected_by=_sorted(counts, "rejected"),
        held=held,
    )


def _sorted(counts: Counter[tuple[str, str | None]], fate: str) -> dict[str, int]:
    chosen = {reason: count for (of_fate, reason), count in counts.items() if of_fate == fate and reason is not None}
    return dict(sorted(chosen.items(), key=lambda pair: (-pair[1], pair[0])))
