"""Sections about votes and the benchmark: leaderboards, pairs of models, style, the benchmark's quality, votes."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.board import BoardColumns
from schemas.rating import Rating
from tasks.report.figures import bars, densities, line_chart, matrix, paired_bars, rating_intervals, shares, sunburst
from tasks.report.page import SECTIONS, Drawn, Part, part
from tasks.runtime.untrusted import one_line
from tasks.storage.queries.bench import APART, RANK_RULE, best_first, checked_votes, contests
from tasks.storage.queries.failures import hard_prompts
from tasks.storage.tables import Store

MATRIX_MODELS_MAX = 40
"""Most models in a matrix: those with the most battles or answers, or the best ranks; its table lists all."""
GREY_SLICE_VOTES = 100
"""Slices with fewer votes are greyed."""
_BOARDS = ("overall", "style_control")


def bench_parts(store: Store, failures: Collection[str]) -> list[Part | None]:
    """Sections about the benchmark, in reading order; None without data."""
    makers = {"bench_funnel": _bench_funnel, "bench_measures": _bench_measures, "bench_agreement": _bench_agreement}
    return [*_made(store, makers), failures_part(store, failures)]


class Tables(Protocol):
    """Tables by their names in a store; without rows where there are none."""

    def read(self, table: str, /) -> pl.DataFrame:
        """All rows."""
        ...


def battle_parts(tables: Tables, pairs: pl.DataFrame) -> list[Part | None]:
    """Sections about votes; None without data. `pairs` counts released battles by model_a, model_b and winner."""
    ratings = tables.read("ratings")
    boards = [_board(ratings.filter(slice=key), key) for key in _BOARDS]
    if boards[1] is not None:
        boards[1] = replace(boards[1], about=f"{boards[1].about}{_names_known(tables.read('style_coefficients'))}")
    votes = _made(tables, {"vote_shares": _votes})
    return [
        *boards,
        _fragility(tables.read("fragility")),
        _ranks(ratings),
        *_made(tables, {"vote_checks": _checks, "exposure": _exposure, "model_lives": _lives, "months": _months}),
        *votes,
        *_pairs(pairs),
        *_styles(tables, ratings),
    ]


def _made(tables: Tables, makers: Mapping[str, Callable[[pl.DataFrame], Part | None]]) -> list[Part | None]:
    rows = {name: tables.read(name) for name in makers}
    return [None if rows[name].is_empty() else make(rows[name]) for name, make in makers.items()]


def _board(ratings: pl.DataFrame, key: str) -> Part | None:
    if ratings.is_empty():
        return None
    board, apart = best_first(ratings), pl.col("flags").list.contains(APART)
    numbers = pl.col("rating", "ci95_low", "ci95_high").round(1)
    shown = board.select("rank", "model", numbers, "battles", pl.col("flags").list.join(" "))
    together, others = board.filter(~apart), board.filter(apart)["model"]
    figure = board_intervals(together["model"], together, Rating.board)
    made = part(f"leaderboard_{key}", shown, figure, rule=RANK_RULE)
    if others.is_empty():
        return made
    names = ", ".join(one_line(name, 60) for name in others)
    return replace(made, about=f"{made.about} {SECTIONS['leaderboard_overall']['apart']} {names}.")


def _fragility(table: pl.DataFrame) -> Part | None:
    """The fewest votes that change first place and neighbours, of all boards; the figure is of the overall board."""
    contested = contests(table)
    neighbours = contested.filter(slice="overall", contest="neighbours").head(MATRIX_MODELS_MAX)
    if neighbours.is_empty():
        return None
    names = [f"{one_line(a, 24)} / {one_line(b, 24)}" for a, b in neighbours.select("model", "rival").iter_rows()]
    # Votes that must be removed or reversed; one value a pair of neighbours, null where no number of votes is enough.
    needed = {change: neighbours[change].cast(pl.Float64).to_list() for change in ("removed", "reversed")}
    unit = "votes" if neighbours["unit"][0] == "vote" else f"votes, by {neighbours['unit'][0]}"
    rounded = contested.with_columns(pl.col("difference").round(1), pl.col("^.*_fraction$").round(5))
    return part("fragility", rounded, paired_bars(names, needed, unit), votes=f"{neighbours['of'][0]:,}")


def _checks(table: pl.DataFrame) -> Part | None:
    counts = {row["check"].replace("_", " "): row["votes"] for row in checked_votes(table)}
    return part("vote_checks", rounded_table(table, 1), bars(counts, "votes")) if counts else None


def _months(table: pl.DataFrame) -> Part:
    return part("months", rounded_table(table, 3), bars(dict(table.select("month", "votes").iter_rows()), "votes"))


def _ranks(ratings: pl.DataFrame) -> Part | None:
    """Ranks on the overall board and on those of categories and languages that rank any model."""
    boards = ratings.filter(pl.col("slice").str.contains(r"^(?:overall$|category:|language:)"))
    if boards.filter(slice="overall").is_empty() or boards["slice"].n_unique() == 1:
        return None
    order = best_first(boards.filter(slice="overall"))["model"].to_list()
    # a row is one slice with its votes, each of which two models count, and whether it ranks any model
    sizes = boards.group_by("slice").agg(pl.col("battles").sum() // 2, ranks=pl.col("rank").is_not_null().any())
    sizes = sizes.sort("battles", "slice", descending=[True, False])
    votes = dict(sizes.select("slice", "battles").iter_rows())
    others = sizes.filter(pl.col("slice") != "overall", "ranks")["slice"]
    names = ["overall", *others.head(MATRIX_MODELS_MAX)]
    table = boards.filter(pl.col("slice").is_in(names)).select("model", "slice", "rank")
    wide = table.pivot("slice", index="model", values="rank").select("model", *names)
    wide = pl.DataFrame({"model": order}).join(wide, on="model", how="left", maintain_order="left")
    places = {(model, name): rank for model, name, rank in table.iter_rows()}
    first_models = order[:MATRIX_MODELS_MAX]
    titles = [f"{one_line(_slice_title(name), 40)} ({votes.get(name, 0):,})" for name in names]
    thin = [place for place, name in enumerate(names) if votes.get(name, 0) < GREY_SLICE_VOTES]
    figure = matrix(first_models, titles, _values(first_models, names, places), low_is_dark=True, thin=thin)
    return part("ranks", wide, figure)


def _exposure(table: pl.DataFrame) -> Part:
    ordered = table.sort("by", "appearances", "group", descending=[False, True, False])
    largest = ordered.filter(pl.int_range(pl.len()).over("by") < MATRIX_MODELS_MAX // 2)
    rows, models = largest["by", "group", "appearances"].iter_rows(), ordered.filter(by="model")["appearances"]
    figure = bars({f"{by}: {group}": count for by, group, count in rows}, "sides of votes")
    # every vote has two models, so that there are models, and each has a vote
    return part("exposure", ordered.with_columns(pl.col(pl.Float64).round(3)), figure, ratio=models[0] / models[-1])


def _lives(table: pl.DataFrame) -> Part | None:
    moved = table.drop_nulls("moved").sort("rating", "model", descending=[True, False]).head(MATRIX_MODELS_MAX)
    if moved.is_empty():
        return None
    chance = pl.col("moved_by_chance")
    ends = moved.with_columns(low=pl.col("moved") - chance, high=pl.col("moved") + chance)
    figure = intervals(ends["model"], ends, ("moved", "low", "high"), "rating points, with the 95 % interval")
    departed = pl.col("left").replace_strict({True: "yes", False: "no"}, return_dtype=pl.String)
    shown = table.sort("rating", "model", descending=[True, False], nulls_last=True).with_columns(
        departed, pl.col(pl.Float64).round(1)
    )
    return part("model_lives", shown.drop("provider", "rating_late"), figure)


def _slice_title(name: str) -> str:
    return name.partition(":")[2] or name


def _votes(votes: pl.DataFrame) -> Part:
    table = votes.sort("battles", "slice", descending=[True, False]).with_columns(
        pl.col("^.*_fraction$").round(3), pl.col("flags").list.join(" ")
    )
    shown = table.head(MATRIX_MODELS_MAX // 2)
    parts = {name.replace("_", " "): shown[f"{name}_fraction"].to_list() for name in ("decisive", "tie", "both_bad")}
    titles = [f"{one_line(_slice_title(n), 40)} ({count:,})" for n, count in shown["slice", "battles"].iter_rows()]
    thin = [place for place, count in enumerate(shown["battles"]) if count < GREY_SLICE_VOTES]
    figure = shares(titles, parts, thin=thin)
    return part("votes", table, figure)


def _pairs(battles: pl.DataFrame) -> list[Part | None]:
    """Battles and win rates of every two models; those of a model with itself are on no board, and not here."""
    battles = battles.filter(pl.col("model_a") != pl.col("model_b")) if battles.height else battles
    if battles.is_empty():
        return []
    number, battles = pl.col("battles"), battles.rename({"conversations": "battles"})
    a, b = (pl.when(winner=side).then(number).otherwise(0) for side in ("model_a", "model_b"))
    sides = [
        battles.select("battles", model="model_a", opponent="model_b", won=a, lost=b),
        battles.select("battles", model="model_b", opponent="model_a", won=b, lost=a),
    ]
    counts = pl.col("battles", "won", "lost").sum().cast(pl.Int64)
    table = pl.concat(sides).group_by("model", "opponent").agg(counts).sort("model", "opponent")
    totals = table.group_by("model").agg(pl.col("battles").sum()).sort("battles", "model", descending=[True, False])
    names = sorted(totals["model"].head(MATRIX_MODELS_MAX))
    met = {(a, b): count for a, b, count, *_ in table.iter_rows()}
    beaten = {(a, b): 100 * won / (won + lost) for a, b, _, won, lost in table.iter_rows() if won + lost}
    figures = {"battle_counts": met, "win_rates": beaten}
    return [part(key, table, matrix(names, names, _values(names, names, each))) for key, each in figures.items()]


def _values(
    rows: Sequence[str], columns: Sequence[str], values: Mapping[tuple[str, str], float | None]
) -> npt.NDArray[np.float64]:
    """(rows, columns); NaN where there is no value."""
    cells = [[values.get((row, column)) for column in columns] for row in rows]
    return np.array(cells, np.float64).reshape(len(rows), len(columns))


def _styles(tables: Tables, ratings: pl.DataFrame) -> list[Part | None]:
    """Sections on style: its effect on votes, also by category (VisionArena Fig. 6), and on ranks (Fig. 8)."""
    coefficients, changes = tables.read("style_coefficients"), tables.read("rank_changes")
    columns = _categories(ratings)
    estimated = coefficients.filter(~pl.col("flags").list.contains("constant")).drop_nulls("coefficient")
    parts: list[Part | None] = []
    if coefficients.height:
        unit = "change of log-odds per standard deviation, with its 95 % interval"
        overall = estimated.filter(slice="overall")
        figure = intervals(overall["covariate"], overall, ("coefficient", "ci95_low", "ci95_high"), unit)
        table = rounded_table(coefficients, 4)
        made = part("style_coefficients", table, figure)
        parts.append(replace(made, about=f"{made.about}{_names_known(coefficients)}"))
        rows = estimated["covariate"].unique(maintain_order=True).to_list()
        firm = estimated.filter(
            (pl.col("battles") == pl.col("of")).fill_null(True) | (pl.col("battles") >= GREY_SLICE_VOTES)
        )
        cells = {(name, board): value for board, name, value in firm["slice", "covariate", "coefficient"].iter_rows()}
        if rows:
            of_categories = table.filter(pl.col("slice").is_in([*columns]))
            drawn = heat_map(rows, columns, cells, digits=2, around_zero=True)
            parts.append(part("style_by_category", of_categories, drawn))
    if changes.height:
        shown = changes.sort("slice", "rank", "rating", descending=[False, False, True], nulls_last=True)
        models = shown.filter(slice="overall")["model"].head(MATRIX_MODELS_MAX).to_list()
        moved = {(model, board): change for board, model, change in shown["slice", "model", "rank_change"].iter_rows()}
        table = shown.with_columns(pl.col(pl.Float64).round(1))
        parts.append(part("rank_changes", table, heat_map(models, columns, moved, around_zero=True)))
    return parts


def _names_known(coefficients: pl.DataFrame) -> str:
    """A sentence, with a space before it, on how many votes named entities are counted; empty where it is all."""
    overall = coefficients.filter(pl.col("battles") < pl.col("of"), slice="overall", covariate="entities")
    for row in overall.iter_rows(named=True):
        key = next((flag for flag in ("unknown", "not_on_board") if flag in row["flags"]), "on_board")
        sentence: str = SECTIONS["style_coefficients"][key].format(battles=row["battles"], of=row["of"])
        return f" {sentence}"
    return ""


def _categories(ratings: pl.DataFrame) -> dict[str, int]:
    """The overall board and those of categories, with their votes, those with most votes first."""
    of = ratings.filter(pl.col("slice").str.contains(r"^(?:overall$|category:)"))
    sizes = of.group_by("slice").agg(pl.col("battles").sum() // 2)
    ordered = sizes.sort(pl.col("slice") != "overall", "battles", "slice", descending=[False, True, False])
    return dict(ordered.iter_rows())


def heat_map(
    rows: Sequence[str], columns: Mapping[str, int], cells: Mapping[tuple[str, str], float | None],
    few: int = GREY_SLICE_VOTES, digits: int = 0, around_zero: bool = False, low_is_dark: bool = False,
) -> Drawn:  # fmt: skip
    """A heat map with a column for each slice, which has its size; those of a size below `few` are grey.

    `cells`: (row, slice) -> number.
    """
    titles = [f"{one_line(_slice_title(name), 40)} ({size:,})" for name, size in columns.items()]
    thin = [place for place, size in enumerate(columns.values()) if size < few]
    values = _values(rows, [*columns], cells)
    return matrix(rows, titles, values, low_is_dark, thin=thin, digits=digits, around_zero=around_zero)


_MARKS = {1.0: "X", 0.85: "X*", 0.65: "R", 0.3: "?", 0.15: "O*", 0.0: "O"}
"""Darkness of a cell -> mark of `hard_prompts`."""


def failures_part(store: Store, released: Collection[str]) -> Part | None:
    """Marks of every model at the released prompts that people saw fail; None without such prompts."""
    marks = hard_prompts(store).filter(pl.col("question_id").is_in(list(released)))
    if marks.is_empty():
        return None
    darkness = {mark: shade for shade, mark in _MARKS.items()}
    prompts = marks.group_by("question_id", "failure_type").len().sort("len", "question_id", descending=[True, False])
    titles = {name: f"{name} ({kind or 'undecided'})" for name, kind, _ in prompts.head(MATRIX_MODELS_MAX).iter_rows()}
    cells = {(model, name): darkness[mark] for model, name, mark in marks["model", "question_id", "mark"].iter_rows()}
    # a row is one model with the number of its marks, those with most first
    counts = marks.group_by("model").len().sort("len", "model", descending=[True, False])
    models = sorted(counts["model"].head(MATRIX_MODELS_MAX))
    figure = matrix(models, [*titles.values()], _values(models, [*titles], cells), marks=_MARKS)
    wide = marks.pivot("model", index=["question_id", "failure_type"], values="mark", sort_columns=True)
    return part("hard_prompts", wide, figure, shown=len(titles), every=prompts.height)


def _bench_funnel(table: pl.DataFrame) -> Part:
    shown = table.sort("step").select("filter", "prompts")
    return part("bench_funnel", shown, bars(dict(shown.iter_rows()), "prompts"))


def _bench_measures(table: pl.DataFrame) -> Part:
    shown = rounded_table(table.sort("measure"), 3)
    names = [name.replace("_", " ") for name in shown["measure"]]
    unit = "benchmark, and random samples of its size"
    return part("bench_measures", shown, intervals(names, shown, ("value", "random_low", "random_high"), unit))


def _bench_agreement(table: pl.DataFrame) -> Part:
    shown = rounded_table(table.sort("reference", "metric", "sample"), 3)
    drawn = shown.filter(pl.col("metric") != "models")
    names = [
        f"{metric}, {sample}{', even topics' if reference == 'even_topics' else ''}".replace("_", " ")
        for metric, sample, reference in drawn.select("metric", "sample", "reference").iter_rows()
    ]
    figure = intervals(names, drawn, ("mean", "low", "high"), "mean and 95 % of the draws")
    flags = {flag for flags in table["flags"] for flag in flags}
    made = part("bench_agreement", shown, figure)
    caveats = (text for flag, text in SECTIONS["bench_agreement"]["caveats"].items() if flag in flags)
    return replace(made, about=" ".join([made.about, *caveats]))


def intervals(names: Iterable[str], table: pl.DataFrame, columns: tuple[str, str, str], unit: str) -> Drawn:
    """A figure of the columns point, low and high."""
    point, low, high = (table[name].to_list() for name in columns)
    return rating_intervals(list(names), point, low, high, unit)


def board_intervals(names: Iterable[str], table: pl.DataFrame, columns: BoardColumns) -> Drawn:
    """A figure of the rows of a board: each value with its interval."""
    return intervals(names, table, (columns.value, columns.low, columns.high), columns.unit)


def rounded_table(table: pl.DataFrame, digits: int) -> pl.DataFrame:
    """The table with rounded numbers, and with flags as one text."""
    flags = [pl.col("flags").list.join(" ")] if "flags" in table.columns else []
    return table.with_columns(pl.col(pl.Float64).round(digits), *flags)


LINES_MAX = 6
"""Models in the figure of ratings by class, as in WildVision Fig. 5."""
_RINGS = {"question": "votes_by_question", "image": "votes_by_image"}
"""Prefix of slices -> section."""
_NAMES = {"left": "left side", "right": "right side", "ties": "tie", "both_bad": "both bad"}


def vote_parts(tables: Tables) -> list[Part | None]:
    """The sections, in reading order; None without data."""
    ratings, shares = tables.read("ratings"), tables.read("vote_shares")
    rings = [_classes(shares, prefix, key) for prefix, key in _RINGS.items()]
    return [_statistics(tables.read("vote_statistics")), *rings, *_by_class(ratings, shares), _lengths(tables)]


def _statistics(table: pl.DataFrame) -> Part | None:
    """WildVision Table 1."""
    if table.is_empty():
        return None
    row = table.drop("slice").row(0, named=True)
    values = [(name.replace("_", " "), _number(value)) for name, value in row.items()]
    shown = pl.DataFrame(values, schema={"statistic": pl.String, "value": pl.String}, orient="row")
    return part("vote_statistics", shown, bars({name: row[column] for column, name in _NAMES.items()}, "votes"))


def _number(value: float | None) -> str | None:
    return f"{value:.3f}" if isinstance(value, float) else None if value is None else str(value)


def _classes(shares: pl.DataFrame, prefix: str, key: str) -> Part | None:
    """Votes by class and subclass (WildVision Fig. 2 and 3)."""
    placed = _placed(shares, prefix).sort("battles", "slice", descending=[True, False])
    if placed.is_empty():
        return None
    whole, parts = (placed.filter(pl.col("part").is_null() == above) for above in (True, False))
    inside = dict(whole.select("name", "battles").iter_rows())
    counts = {(name, each): votes for name, each, votes in parts.select("name", "part", "battles").iter_rows()}
    fractions = pl.col("^.*_fraction$").round(3)
    table = placed.select("name", "part", "battles", fractions, pl.col("flags").list.join(" "))
    return part(key, table, sunburst(counts, inside, GREY_SLICE_VOTES))


def _placed(table: pl.DataFrame, *prefixes: str) -> pl.DataFrame:
    """Rows of slices with these prefixes, with `name` and `part` of their class; part is null for a whole class."""
    kind, fields = pl.col("slice").str.splitn(":", 2).struct.unnest(), ("name", "part")
    split = table.with_columns(kind.name.map(lambda field: {"field_0": "kind", "field_1": "class"}[field]))
    chosen = split.filter(pl.col("kind").is_in(prefixes))
    names = pl.col("class").str.splitn(" / ", 2).struct.rename_fields(fields).alias("names")
    return chosen.with_columns(names).unnest("names")


def _by_class(ratings: pl.DataFrame, shares: pl.DataFrame) -> list[Part | None]:
    """Ratings by question category and image domain (WildVision Table 2), and the six best models in them (Fig. 5)."""
    board = best_first(ratings.filter(slice="overall"))
    placed = _placed(ratings, *_RINGS).filter(pl.col("part").is_null())
    if placed.is_empty():
        return []
    votes = dict(shares.select("slice", "battles").iter_rows())
    order = sorted(
        placed["slice"].unique(), key=lambda name: (name.partition(":")[0] != "question", -votes.get(name, 0), name)
    )
    wide = placed.pivot("slice", index="model", values="rating")
    overall = board.select("model", overall="rating")
    table = overall.join(wide.select("model", *order), on="model", how="left", maintain_order="left")
    first_models = table.head(MATRIX_MODELS_MAX)
    titles = ["all", *(f"{name.partition(':')[2]} ({votes.get(name, 0):,})" for name in order)]
    thin = [place for place, name in enumerate(order) if votes.get(name, 0) < GREY_SLICE_VOTES]
    breaks = [sum(name.startswith("question:") for name in order)]
    cells = first_models.drop("model").cast(pl.Float64).to_numpy()
    figure = matrix(first_models["model"].to_list(), titles, cells, thin=[place + 1 for place in thin])
    best = {row[0]: row[2:] for row in table.head(LINES_MAX).iter_rows()}
    rounded = table.with_columns(pl.col(pl.Float64).round(1))
    return [
        part("ratings_by_class", rounded, figure),
        part("best_by_class", rounded.head(LINES_MAX), line_chart(titles[1:], best, "rating", thin, breaks)),
    ]


def _lengths(tables: Tables) -> Part | None:
    """Wins by the difference of length (WildVision's winner density)."""
    table = tables.read("length_differences").sort("low", nulls_last=False)
    bounded = table.drop_nulls(["low", "high"])
    if bounded.is_empty():
        return None
    edges = [*bounded["low"].to_list(), bounded["high"][-1]]
    names = {side: f"{side} side won ({table[side].sum():,})" for side in ("left", "right")}
    series = {name: bounded[f"{side}_density"].fill_null(0.0).to_list() for side, name in names.items()}
    few = table["flags"].list.len().sum() > 0
    figure = densities(edges, series, "tokens of the left side's answers minus the right's", faded=few)
    unbounded = table.filter(pl.any_horizontal(pl.col("low", "high").is_null()))
    beyond = sum(left + right for left, right in unbounded.select("left", "right").iter_rows())
    shown = table.drop("slice").with_columns(pl.col("flags").list.join(" "))
    return part("length_differences", shown, figure, beyond=f"{beyond:,}")
