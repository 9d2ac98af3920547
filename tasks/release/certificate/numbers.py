"""Computes the numbers of a certificate from the battles and boards of a release."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from schemas.benches.certificate import (
    Apart,
    Certificate,
    Contest,
    Coverage,
    DroppedVotes,
    FilterEffect,
    OffTheBoard,
    VoteCheck,
)
from schemas.rating import OVERALL, Rating, RatingMethod
from tasks.leaderboard.fairness import best_of, exposure, model_lives, months
from tasks.leaderboard.leaderboard import FEW_BATTLES
from tasks.leaderboard.rating_tables import RatingTables
from tasks.release.registered import FRAGILITY, RELEASED_TABLES, VOTE_CHECKS, read_released
from tasks.storage.parquet import read_parquet_groups
from tasks.storage.queries.bench import best_first
from tasks.storage.tables import frame_of

_DIGITS = 4


def certificate_of(
    folder: Path, tables: RatingTables, off_the_board: Sequence[OffTheBoard], dropped: Sequence[DroppedVotes]
) -> Certificate | None:
    """The certificate of the release in `folder`, whose votes are in `tables`; None without votes."""
    rated, facts, method = tables.rated, tables.facts, tables.method
    if rated.is_empty():
        return None
    board = tables.overall
    boards, shares = _boards(folder), exposure(rated, facts)
    appearances = [row.appearances for row in shares if row.by == "model"]
    return Certificate(
        votes=rated.height,
        models=len(board),
        voters=(rated["judge"].drop_nulls() if "judge" in rated.columns else pl.Series([])).n_unique() or None,
        apart=_apart(board, method),
        fragility=list(_contests(folder)),
        checks=[VoteCheck(**row) for row in _released(folder, VOTE_CHECKS).iter_rows(named=True)],
        filters=list(_filters(boards)),
        coverage=list(_coverage(boards)),
        exposure=shares,
        largest_to_smallest=max(appearances) / min(appearances),
        lives=model_lives(rated, board, method, facts),
        off_the_board=list(off_the_board),
        dropped=list(dropped),
        months=months(rated),
        best_of=best_of(board, facts),
    )


def rounded(value: Any) -> Any:
    """Values of a JSON file with fewer digits, which another machine computes alike."""
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list) else value


def _boards(folder: Path) -> pl.DataFrame:
    """All boards of votes in a release."""
    files = sorted((folder / "leaderboard").glob("*.parquet"))
    groups = [group for path in files for group in read_parquet_groups(path)]
    rating_groups = [group for group in groups if {*Rating.model_fields} == {*group.columns}]
    return pl.concat([frame_of(Rating, []), *rating_groups])


def _released(folder: Path, table: str) -> pl.DataFrame:
    """Rows of a table that is written, and checked, before the certificate."""
    rows = read_released(folder, table)
    return frame_of(RELEASED_TABLES[table].row, []) if rows is None else rows


def _contests(folder: Path) -> Iterator[Contest]:
    rows = _released(folder, FRAGILITY).filter(slice=OVERALL).sort("contest", "place", "change")
    return (Contest(**row) for row in rows.select(*Contest.model_fields).iter_rows(named=True))


def _apart(board: Sequence[Rating], method: RatingMethod) -> Apart:
    ranked = frame_of(Rating, board).drop_nulls("rank")
    half_width = ranked.select(pl.col("ci95_high") - pl.col("ci95_low")).to_series().median()
    ranks, pairs = ranked["rank"].to_list(), ranked.height * (ranked.height - 1) // 2
    return Apart(
        interval=str(method.interval.value),
        half_width=half_width / 2 if isinstance(half_width, float) else None,
        neighbours=max(ranked.height - 1, 0),
        neighbours_apart=sum(below > above for above, below in pairwise(ranks)),
        # a rank is one more than the models that are clearly better, so all ranks together count the pairs
        pairs_apart=sum(rank - 1 for rank in ranks) / pairs if pairs else None,
    )


def _filters(boards: pl.DataFrame) -> Iterator[FilterEffect]:
    from scipy.stats import spearmanr  # slow to load

    whole = best_first(boards.filter(slice=OVERALL)).drop_nulls("rank")
    for name in ("exclude_ties", "exclude_refusal", "exclude_preset", "style_control"):
        board = best_first(boards.filter(slice=name))
        both = whole.join(board.drop_nulls("rank"), on="model", maintain_order="left", suffix="_here")
        if both.height < 2:
            continue
        moved = (both["rank"] - both["rank_here"]).abs()
        varies = both["rating"].n_unique() > 1 and both["rating_here"].n_unique() > 1
        yield FilterEffect(
            board=name,
            battles=int(board["battles"].sum()) // 2,
            spearman=float(spearmanr(both["rating"], both["rating_here"]).statistic) if varies else None,
            first=board["model"][0],
            same_first=board["model"][0] == whole["model"][0],
            moved_models=moved.filter(moved > 0).len(),
            moved_places=max(moved),
        )


def _coverage(boards: pl.DataFrame) -> Iterator[Coverage]:
    # A row is one slice with its votes, each of which two models count; the smallest is first, to be named.
    sizes = (
        boards.filter(pl.col("slice").str.contains(":", literal=True))
        .group_by("slice")
        .agg(votes=pl.col("battles").sum() // 2, ranked=pl.col("rank").count() > 1)
        .with_columns(kind=pl.col("slice").str.split(":").list.first())
        .sort("votes", "slice")
    )
    for (kind,), slices in sizes.group_by("kind", maintain_order=True):
        yield Coverage(
            kind=str(kind),
            boards=slices.height,
            ranked=int(slices["ranked"].sum()),
            small=slices.filter(pl.col("votes") < FEW_BATTLES).height,
            smallest=slices["slice"][0].partition(":")[2],
            smallest_votes=int(slices["votes"][0]),
        )
