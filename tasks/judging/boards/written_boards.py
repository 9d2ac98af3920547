"""Boards of written benchmarks in a release, its card and the explorer (VisIT-Bench Tables 3 and 4, Fig. 7 and 8)."""

from collections.abc import Iterator, Sequence

import polars as pl

from schemas.benches.judging import STAND_IN
from tasks.judging.released_texts import ITEM_JUDGE
from tasks.release.item_boards import item_boards, percent_of, ranked, wide
from tasks.release.registered import BoardOf, ShownBoard

_WINS, _OF = "wins_vs_reference", "decisive_vs_reference"
_RULES = {
    "written_board": [
        (pl.col("win_rate_vs_reference").is_not_null() & (pl.col(_OF) == 0), "a win rate rests on no battle"),
        (
            (pl.col("win_rate_vs_reference") - pl.col(_WINS) / pl.col(_OF)).abs() > 1e-9,
            "the win rate is not that of the counted battles",
        ),
        (pl.col("decisive_vs_reference") > pl.col("battles_vs_reference"), "more battles are decided than were held"),
    ],
    "written_metrics": [
        (~pl.col("reproduced").is_between(0, 1), "a share is not between 0 and 1"),
        (pl.col("ties") > pl.col("comparisons"), "more comparisons are ties than there are"),
    ],
}


def stand_ins(board: pl.DataFrame) -> Sequence[str]:
    """`[ITEM_JUDGE]` where the embedded judge made a board."""
    return [ITEM_JUDGE] if (board["judge"] == STAND_IN).any() else []


def shown_boards(board_of: BoardOf) -> Iterator[ShownBoard]:
    """Elo and wins against the reference, the same by family, and metrics held against people; of each benchmark."""
    board, metrics = board_of("written_board"), board_of("written_metrics")
    for bench in sorted({*(board["bench"] if board.height else ()), *(metrics["bench"] if metrics.height else ())}):
        if board.height and (bench_rows := board.filter(bench=bench)).height:
            yield _board(bench, bench_rows)
            yield from _families(bench, bench_rows)
        if metrics.height and (bench_metrics := metrics.filter(bench=bench)).height:
            about = (
                "Share of comparisons whose winner, as most people chose it, a judge or a metric names, and the number "
                "of comparisons, by how many people agreed."
            )
            table = wide(
                bench_metrics.with_columns(percent_of("reproduced", "comparisons")), "metric", "bin", "reproduced"
            )
            yield ShownBoard(f"{bench}: metrics and people", about, table)


def _board(bench: str, bench_rows: pl.DataFrame) -> ShownBoard:
    rows = ranked(bench_rows.filter(slice="overall"), "rating")
    ends = (_rounded(name).cast(pl.String).fill_null("open") for name in ("ci95_low", "ci95_high"))
    interval = pl.format("{} to {}", *ends)
    won = percent_of("win_rate_vs_reference", _OF)
    coverage = pl.format("{} %", (100 * pl.col("coverage")).round(0).cast(pl.Int64)).alias("coverage")
    table = rows.select(
        "rank", "model", _rounded("elo"), _rounded("rating"), interval.alias("95 % interval"), "matches", "ties",
        won.alias("won against the reference"), coverage, "flags",
    )  # fmt: skip
    about = bench_rows.row(0, named=True)
    who = (
        "The embedded judge, a stand-in that ranks nothing in public," if about["judge"] == STAND_IN else about["judge"]
    )
    seen = "captions and the reference" if about["protocol"].endswith("reference") else "captions"
    explanation = (
        f"{who} saw {seen} in place of the images and decided both orders of two answers. Elo depends on the order of "
        "battles, the Bradley-Terry rating does not. Wins against the reference leave ties out."
    )
    return ShownBoard(f"{bench}: models by a judge of captions", explanation, table)


def by_family(family_rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of families, of models that met the reference in one of them."""
    from tasks.judging.visit_battles import REFERENCE  # imported late: the explorer needs no scipy

    families = family_rows.filter(pl.col("slice").str.starts_with("family:"), pl.col("model") != REFERENCE)
    named = families.with_columns(family=pl.col("slice").str.strip_prefix("family:"))
    return named.filter((pl.col(_OF).sum() > 0).over("model")).sort("family", "model")


def _families(bench: str, bench_rows: pl.DataFrame) -> Iterator[ShownBoard]:
    rows = by_family(bench_rows).with_columns(percent_of("win_rate_vs_reference", _OF))
    if rows.height:
        about = "Share of decisive battles with the reference that a model won, and their number."
        table = wide(rows, "family", "model", "win_rate_vs_reference")
        yield ShownBoard(f"{bench}: wins against the reference by family", about, table)


def _rounded(name: str) -> pl.Expr:
    return pl.col(name).round(0).cast(pl.Int64)


WRITTEN_BOARDS = item_boards("## Boards of written benchmarks", "written", _RULES, shown_boards, stand_ins)
