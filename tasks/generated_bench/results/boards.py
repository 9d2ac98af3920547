"""Boards of benchmarks made on demand: release, card, explorer (AutoBench-V Fig. 6 and 13, Tables 5 and 6)."""

from collections.abc import Iterator

import polars as pl

from tasks.release.item_boards import item_boards, percent_of, ranked, wide
from tasks.release.registered import BoardOf, ShownBoard

_UNIT = pl.col("under_half") + pl.col("from_half") + pl.col("from_80") + pl.col("whole")
_RULES = {
    "generated_accuracy": [
        ((pl.col("accuracy") - pl.col("right") / pl.col("items")).abs() > 1e-9, "accuracy is not right / items"),
        (
            (pl.col("right") > pl.col("items")) | (pl.col("items") > pl.col("of")),
            "more answers are right, or items counted, than there are",
        ),
    ],
    "generated_alignment": [((_UNIT - 1).abs() > 1e-9, "the shares of images do not add up to 1")],
    "generated_audit": [
        (
            pl.col("measure").str.ends_with("_accuracy") & ~pl.col("value").is_between(0, 1),
            "an accuracy is not between 0 and 1",
        )
    ],
}
_KINDS = {"level": "level", "aspect": "aspect", "type": "what is asked for"}


def shown_accuracy(board_of: BoardOf) -> Iterator[ShownBoard]:
    """Accuracy overall, by level, aspect and type, alignment of the images, and the audit; of each benchmark."""
    tables = {name: rows for name in _RULES if (rows := board_of(name)).height}
    for bench in sorted({bench for rows in tables.values() for bench in rows["bench"]}):
        for name, rows in tables.items():
            if (bench_rows := rows.filter(bench=bench)).height:
                yield from _SHOWN[name](bench, bench_rows)


def _accuracy(bench: str, bench_rows: pl.DataFrame) -> Iterator[ShownBoard]:
    interval = pl.format("{} to {}", _percent("ci95_low"), _percent("ci95_high")).alias("95 % interval, %")
    rows = ranked(bench_rows.filter(slice="overall"), "accuracy").with_columns(percent_of("accuracy", "items"))
    about = (
        "Share of right answers on the items that all models with a coverage of 95 % answered, with Wilson's interval. "
        "Rank is 1 + the number of models with a higher accuracy."
    )
    board = rows.select("rank", "model", "accuracy", interval, "unreadable", "answered", "of", "flags")
    yield ShownBoard(f"{bench}: accuracy", about, board)
    for kind, words in _KINDS.items():
        of_kind = bench_rows.filter(pl.col("slice").str.starts_with(f"{kind}:")).with_columns(
            percent_of("accuracy", "items"), pl.col("slice").str.strip_prefix(f"{kind}:")
        )
        if of_kind.height:
            explanation = f"Accuracy, with the number of items, by {words}. Under 30 items a figure is mostly chance."
            board = wide(of_kind, "slice", "model", "accuracy").rename({"slice": kind})
            yield ShownBoard(f"{bench}: accuracy by {words}", explanation, board)


def _alignment(bench: str, bench_rows: pl.DataFrame) -> Iterator[ShownBoard]:
    shares = ("mean", "under_half", "from_half", "from_80", "whole")
    names = ("mean, %", "under 0.5, %", "0.5 to 0.8, %", "0.8 to 1, %", "all right, %")
    cells = [_percent(share).fill_null("–").alias(name) for share, name in zip(shares, names, strict=True)]
    about = "How far images show what their descriptions say: share of check questions that are answered right."
    yield ShownBoard(f"{bench}: alignment of its images", about, bench_rows.select("slice", "images", *cells))


def _audit(bench: str, bench_rows: pl.DataFrame) -> Iterator[ShownBoard]:
    about = (
        "Models asked again without the image (blind), with the description in its place (described), and with every "
        "key at one letter (all_a, all_d)."
    )
    figures = bench_rows.filter(pl.col("measure") != "leaked_items")
    value = pl.format("{} (n {})", pl.col("value").round(3), pl.col("items")).fill_null("–").alias("value")
    cells = figures.with_columns(value, model=pl.when(pl.col("model") == "").then(pl.lit("all")).otherwise("model"))
    if cells.height:
        board = cells.pivot("level", index=["measure", "model"], values="value", maintain_order=True)
        yield ShownBoard(f"{bench}: audit", about, board.fill_null("–"))


_SHOWN = {"generated_accuracy": _accuracy, "generated_alignment": _alignment, "generated_audit": _audit}


def _percent(name: str) -> pl.Expr:
    return (100 * pl.col(name)).round(0).cast(pl.Int64).cast(pl.String)


GENERATED_BOARDS = item_boards("## Boards of benchmarks made on demand", "generated", _RULES, shown_accuracy)
