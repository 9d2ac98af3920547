"""Withdraws every line that touches a conversation or picture which a server flagged as child abuse."""

from collections.abc import Iterable, Sequence

import polars as pl

from schemas.reject import Quarantined, Reject, RejectReason
from tasks.tables import Store, frame_of

_KEYS = ["source", "line", "conv_id", "pictures"]


def rows_without(
    store: Store, table: str, parts: Sequence[str], unwanted: pl.Expr, columns: Sequence[str]
) -> list[str]:
    """Parts of the table with no row for which `unwanted`, an expression over `columns`, holds.

    Parts without such a row are kept as they are. Nothing is listed or removed.
    """
    kept: list[str] = []
    for part in parts:
        if not store.read_part(table, part, columns).select(unwanted.fill_null(False).any()).item():
            kept.append(part)
            continue
        rows = store.read_part(table, part).filter(~unwanted.fill_null(False))
        if rows.height:
            kept.append(store.write_part(table, rows))
    return kept


def quarantined(
    store: Store, parts: Sequence[str], conversations: Iterable[str], pictures: Iterable[str]
) -> pl.DataFrame:
    """All that is quarantined when these conv_ids and picture names are: the `quarantine` table.

    A vote line that shows a flagged conversation takes its other side along, and so on.
    """
    held, named = set(conversations), set(pictures)
    grown = bool(held or named)
    while grown:
        found: set[str] = set()
        for part in parts:
            rows = store.read_part("sightings", part, _KEYS)
            lines = rows.filter(touches(held, named)).select("source", "line").unique()
            found.update(rows.join(lines, on=["source", "line"], how="semi")["conv_id"])
        grown = not found <= held
        held |= found
    flagged = [Quarantined(kind="conversation", key=key) for key in sorted(held)]
    return frame_of(Quarantined, flagged + [Quarantined(kind="picture", key=key) for key in sorted(named)])


def touches(conversations: Iterable[str], pictures: Iterable[str]) -> pl.Expr:
    """Whether a sighting belongs to one of the conversations or shows one of the pictures."""
    named = pl.lit(pl.Series(sorted(pictures), dtype=pl.String).implode())
    shown = pl.col("pictures").list.set_intersection(named).list.len() > 0
    return pl.col("conv_id").is_in(sorted(conversations)) | shown


def withdraw(store: Store, parts: Sequence[str], held: pl.DataFrame) -> tuple[list[str], pl.DataFrame]:
    """(parts without the lines that touch what is quarantined, the rejects of those lines)."""
    keys = {kind: set(held.filter(kind=kind)["key"]) for kind in ("conversation", "picture")}
    unwanted = touches(keys["conversation"], keys["picture"])
    withdrawn: set[tuple[str, int]] = set()
    for part in parts:
        withdrawn.update(
            store.read_part("sightings", part, _KEYS).filter(unwanted).select("source", "line").iter_rows()
        )
    evidence = "shares a conversation or picture with a flagged one"
    rejects = [
        Reject(source=source, line=line, reason=RejectReason.CSAM_FLAGGED, evidence=evidence)
        for source, line in sorted(withdrawn)
    ]
    kept = rows_without(store, "sightings", parts, unwanted, ["conv_id", "pictures"]) if withdrawn else list(parts)
    return kept, frame_of(Reject, rejects)
