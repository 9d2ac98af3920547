"""Sections about the votes themselves: their statistics, what they ask about, and the length of the answers."""

import polars as pl

from tasks.report.figures import bars, densities, lines, matrix, sunburst
from tasks.report.page import Part, part
from tasks.storage.tables import Store

FEW_VOTES = 100
"""Slices with fewer votes are greyed."""
MODELS_MAX = 40
LINES_MAX = 6
"""Models in the figure of ratings by class, as in WildVision Fig. 5."""
_RINGS = {"question": "votes_by_question", "image": "votes_by_image"}
"""Prefix of slices -> section."""
_NAMES = {"left": "left side", "right": "right side", "ties": "tie", "both_bad": "both bad"}


def vote_parts(store: Store) -> list[Part | None]:
    """The sections, in reading order; None without data."""
    ratings, shares = store.read("ratings"), store.read("vote_shares")
    rings = [_classes(shares, prefix, key) for prefix, key in _RINGS.items()]
    return [_statistics(store.read("vote_statistics")), *rings, *_by_class(ratings, shares), _lengths(store)]


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
    return part(key, table, sunburst(counts, inside, FEW_VOTES))


def _placed(table: pl.DataFrame, *prefixes: str) -> pl.DataFrame:
    """Rows of slices with these prefixes, with `name` and `part` of their class; part is null for a whole class."""
    kind, rest = pl.col("slice").str.splitn(":", 2).struct.unnest(), ("name", "part")
    split = table.with_columns(kind.name.map(lambda field: {"field_0": "kind", "field_1": "class"}[field]))
    chosen = split.filter(pl.col("kind").is_in(prefixes))
    names = pl.col("class").str.splitn(" / ", 2).struct.rename_fields(rest).alias("names")
    return chosen.with_columns(names).unnest("names")


def _by_class(ratings: pl.DataFrame, shares: pl.DataFrame) -> list[Part | None]:
    """Ratings by question category and image domain (WildVision Table 2), and the six best models in them (Fig. 5)."""
    board = ratings.filter(slice="overall").sort("rating", "model", descending=[True, False])
    placed = _placed(ratings, *_RINGS).filter(pl.col("part").is_null())
    if placed.is_empty():
        return []
    votes = dict(shares.select("slice", "battles").iter_rows())
    order = sorted(
        placed["slice"].unique(), key=lambda name: (name.partition(":")[0] != "question", -votes.get(name, 0), name)
    )
    wide = placed.pivot("slice", index="model", values="rating")
    table = board.select("model", overall="rating").join(wide.select("model", *order), on="model", how="left")
    shown = table.head(MODELS_MAX)
    titles = ["all", *(f"{name.partition(':')[2]} ({votes.get(name, 0):,})" for name in order)]
    thin = [place for place, name in enumerate(order) if votes.get(name, 0) < FEW_VOTES]
    breaks = [sum(name.startswith("question:") for name in order)]
    cells = shown.drop("model").cast(pl.Float64).to_numpy()
    figure = matrix(shown["model"].to_list(), titles, cells, thin=[place + 1 for place in thin])
    best = {row[0]: row[2:] for row in table.head(LINES_MAX).iter_rows()}
    rounded = table.with_columns(pl.col(pl.Float64).round(1))
    return [
        part("ratings_by_class", rounded, figure),
        part("best_by_class", rounded.head(LINES_MAX), lines(titles[1:], best, "rating", thin, breaks)),
    ]


def _lengths(store: Store) -> Part | None:
    """Who wins by the difference of length (WildVision's winner density)."""
    table = store.read("length_differences").sort("low", nulls_last=False)
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
