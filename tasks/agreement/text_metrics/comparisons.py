"""Votes of several people on the same two answers, put together: who won, and how many agreed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from schemas.errors import BadInput
from tasks.leaderboard.battle_files import NAMES, read_table
from tasks.leaderboard.votes import rateable
from tasks.runtime.untrusted import one_line

_COLUMNS: Mapping[str, list[str]] = {
    "item": ["question_id", "item_id", "item", "prompt"],
    **{name: NAMES["battle"][name] for name in ("model_a", "model_b", "winner")},
    "rater": ["rater", *NAMES["battle"]["judge"]],
}
"""Our column -> its names in files, the first one present is used."""
_PAIR = ["item", "model_a", "model_b"]


@dataclass(frozen=True)
class Comparisons:
    """Pairs of answers that so many people voted on."""

    rows: pl.DataFrame
    """item, model_a and model_b in order of name, `a_wins`, `bin` such as 4/5."""
    left_out: int
    """Pairs with another number of decisive votes, or without a majority."""


def read_comparisons(path: Path, votes: int) -> Comparisons:
    """The comparisons of a table of single votes with exactly so many decisive votes; ties are no such votes.

    Raises BadInput for a table without the columns, without a comparison, and for a rater who votes twice on one.
    """
    raw = read_table(path, {name for names in _COLUMNS.values() for name in names})
    columns = {ours: next((name for name in names if name in raw.columns), None) for ours, names in _COLUMNS.items()}
    if lacking := [name for name in _COLUMNS if name != "rater" and columns[name] is None]:
        raise BadInput(f"{str(path)!r} lacks {', '.join(lacking)}; its columns are {', '.join(raw.columns)}")
    told = raw.select(pl.col(source).cast(pl.String).alias(name) for name, source in columns.items() if source)
    told = told.drop_nulls("item").filter(pl.col("winner").is_not_null())
    turned = pl.col("model_a") > pl.col("model_b")
    cast = rateable(told).with_columns(
        a_wins=(pl.col("winner") == "model_a") != turned,
        model_a=pl.min_horizontal("model_a", "model_b"),
        model_b=pl.max_horizontal("model_a", "model_b"),
    )
    _check_once(cast, path)
    decisive = cast.filter(pl.col("winner").is_in(["model_a", "model_b"]))
    counted = decisive.group_by(_PAIR).agg(votes=pl.len(), wins=pl.col("a_wins").sum()).sort(_PAIR)
    most = pl.max_horizontal("wins", pl.col("votes") - pl.col("wins"))
    chosen = counted.filter(votes=votes).filter(2 * most > votes)
    if chosen.is_empty():
        raise BadInput(
            f"{str(path)!r}: none of its {counted.height:,} comparisons has {votes} votes for one side or the other; "
            "give another number as --votes"
        )
    rows = chosen.select(*_PAIR, a_wins=2 * pl.col("wins") > votes, bin=pl.format("{}/{}", most, pl.lit(votes)))
    return Comparisons(rows, counted.height - chosen.height)


def _check_once(cast: pl.DataFrame, path: Path) -> None:
    if "rater" not in cast.columns:
        return
    named = cast.drop_nulls("rater")
    twice = named.filter(named.select(*_PAIR, "rater").is_duplicated())
    if not twice.is_empty():
        row = twice.row(0, named=True)
        rater, item, one, other = (one_line(row[name], 60) for name in ("rater", *_PAIR))
        raise BadInput(
            f"{str(path)!r}: rater {rater!r} votes twice on {one!r} and {other!r} at item {item!r}; keep one"
        )
