"""Sections about votes: leaderboards and who met whom."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks.language_names import english_name
from tasks.report.figures import matrix, rating_intervals, shares
from tasks.report.part import Part
from tasks.report.style import style_parts
from tasks.tables import Store

MODELS_MAX = 40
"""Models of a matrix; those with the most battles, its table holds all."""
_RANK = "Rank is 1 + the number of models whose 95 % interval lies wholly above."
_BOARDS = {
    "overall": ("Leaderboard", f"Bradley-Terry ratings from kept anonymous battles. {_RANK}"),
    "style_control": (
        "Leaderboard under style control",
        f"The same with length and markdown of the answers held equal. {_RANK}",
    ),
}


def battle_parts(store: Store, pairs: pl.DataFrame) -> list[Part]:
    """Sections in reading order; none without battles. `pairs` tallies kept battles by model_a, model_b and winner."""
    ratings = store.read("ratings")
    boards = [_board(ratings.filter(slice=key), key) for key in _BOARDS]
    parts = [*boards, _ranks(ratings), _votes(store.read("vote_shares")), *_pairs(pairs)]
    return [*(part for part in parts if part is not None), *style_parts(store)]


def _board(ratings: pl.DataFrame, key: str) -> Part | None:
    if ratings.is_empty():
        return None
    board = ratings.sort("rating", "model", descending=[True, False])
    names, point, low, high = (board[name].to_list() for name in ("model", "rating", "ci95_low", "ci95_high"))
    numbers = pl.col("rating", "ci95_low", "ci95_high").round(1)
    shown = board.select("rank", "model", numbers, "battles", pl.col("flags").list.join(" "))
    title, about = _BOARDS[key]
    return Part(f"leaderboard_{key}", title, about, shown, rating_intervals(names, point, low, high), show_table=True)


def _ranks(ratings: pl.DataFrame) -> Part | None:
    """Ranks on the boards of categories and languages, models in the order of the overall board."""
    boards = ratings.filter(pl.col("slice").str.contains(r"^(?:overall$|category:|language:)"))
    if boards.filter(slice="overall").is_empty() or boards["slice"].n_unique() == 1:
        return None
    order = boards.filter(slice="overall").sort("rating", "model", descending=[True, False])["model"].to_list()
    sizes = boards.group_by("slice").agg(pl.col("battles").sum()).sort("battles", "slice", descending=[True, False])
    names = ["overall", *sizes.filter(pl.col("slice") != "overall")["slice"].head(MODELS_MAX)]
    table = boards.filter(pl.col("slice").is_in(names)).select("model", "slice", "rank")
    wide = table.pivot("slice", index="model", values="rank").select("model", *names)
    wide = pl.DataFrame({"model": order}).join(wide, on="model", how="left", maintain_order="left")
    places = {(model, name): float(rank) for model, name, rank in table.iter_rows()}
    titles = [_slice_title(name) for name in names]
    about = "Ranks on the board of each category and language, those with most battles first. Empty: no battles there."
    figure = matrix(order[:MODELS_MAX], titles, _values(order[:MODELS_MAX], names, places), low_is_dark=True)
    return Part("ranks", "Ranks by category and language", about, wide, figure)


def _slice_title(name: str) -> str:
    kind, _, value = name.partition(":")
    return english_name(value) if kind == "language" else value or name


def _votes(votes: pl.DataFrame) -> Part | None:
    if votes.is_empty():
        return None
    table = votes.sort("battles", "slice", descending=[True, False]).with_columns(
        pl.col("^.*_fraction$").round(3), pl.col("flags").list.join(" ")
    )
    shown = table.head(MODELS_MAX // 2)
    parts = {name: shown[f"{name}_fraction"].to_list() for name in ("decisive", "tie", "both_bad")}
    figure = shares([_slice_title(name) for name in shown["slice"]], parts)
    about = "What people voted, slice by slice, largest first (VisionArena Table 2)."
    return Part("votes", "Votes", about, table, figure)


def _pairs(battles: pl.DataFrame) -> list[Part]:
    if battles.is_empty():
        return []
    number = pl.col("battles")
    a, b = (pl.when(winner=side).then(number).otherwise(0) for side in ("model_a", "model_b"))
    sides = [
        battles.select("battles", model="model_a", opponent="model_b", won=a, lost=b),
        battles.select("battles", model="model_b", opponent="model_a", won=b, lost=a),
    ]
    counts = pl.col("battles", "won", "lost").sum().cast(pl.Int64)
    table = pl.concat(sides).group_by("model", "opponent").agg(counts).sort("model", "opponent")
    totals = table.group_by("model").agg(pl.col("battles").sum()).sort("battles", "model", descending=[True, False])
    names = sorted(totals["model"].head(MODELS_MAX))
    met = {(a, b): float(count) for a, b, count, *_ in table.iter_rows()}
    beaten = {(a, b): 100 * won / (won + lost) for a, b, _, won, lost in table.iter_rows() if won + lost}
    about = "How often each pair of models met in kept battles (VisionArena Fig. 12)."
    percent = "Of the votes for one side, the percentage that went to the model of the row. Empty: no such vote."
    return [
        Part("battle_counts", "Battles of each pair", about, table, matrix(names, names, _values(names, names, met))),
        Part(
            "win_rates", "Win rates of each pair", percent, table, matrix(names, names, _values(names, names, beaten))
        ),
    ]


def _values(
    rows: Sequence[str], columns: Sequence[str], values: Mapping[tuple[str, str], float]
) -> npt.NDArray[np.float64]:
    """(rows, columns); NaN where there is no value."""
    return np.array([[values.get((row, column), np.nan) for column in columns] for row in rows])
