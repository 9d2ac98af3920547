"""Tables of who was given what: votes by provider, licence and weights, models that came and left, months, best of N.

Only votes count that the board is computed from. Facts about models come from the policy (`models`).
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtr

from schemas.benches.certificate import ArenaMonth, BestOf, Exposure, ModelLife
from schemas.policy import ModelFacts
from schemas.rating import OVERALL, Rating, RatingMethod
from tasks.leaderboard.intervals import NORMAL95
from tasks.leaderboard.leaderboard import rate_slice
from tasks.leaderboard.votes import votes

LEFT_DAYS = 30
"""Days without a vote after which a model counts as gone."""
PROMPT_COLUMN = "prompt"
"""Column that is equal for equal prompts."""
_UNKNOWN = "unknown"
_GRID = 4001
"""Points of the integral over the highest of several normal draws."""
_DEVIATIONS = 8.0
FactsOfModels = Mapping[str, ModelFacts]


def exposure(battles: pl.DataFrame, facts: FactsOfModels) -> list[Exposure]:
    """Votes of each model, provider, licence and kind of weights, most first. `battles` come from `rateable`."""
    sides = _sides(battles).group_by("model").agg(appearances=pl.len()).sort("model")
    total, rows = sides["appearances"].sum(), list[Exposure]()
    for by, named in _groups(sides["model"], facts).items():
        grouped = sides.with_columns(group=named).group_by("group").agg(pl.col("appearances").sum(), models=pl.len())
        for group, appearances, models in grouped.sort("appearances", "group", descending=[True, False]).iter_rows():
            shared = {"share": appearances / total, "votes_a_model": appearances / models}
            rows.append(Exposure(by=by, group=group, models=models, appearances=appearances, **shared))
    return rows


def _groups(models: pl.Series, facts: FactsOfModels) -> dict[str, pl.Series]:
    """The group of each model, by what models have in common."""
    facts_in_order = [facts.get(model, ModelFacts()) for model in models]
    weights = {True: "open", False: "closed", None: _UNKNOWN}
    groups = {
        "provider": [model_facts.provider or _UNKNOWN for model_facts in facts_in_order],
        "licence": [model_facts.licence or _UNKNOWN for model_facts in facts_in_order],
        "weights": [weights[model_facts.open] for model_facts in facts_in_order],
    }
    stated = {by: pl.Series(names) for by, names in groups.items() if {*names} != {_UNKNOWN}}
    return {"model": models, **stated}


def _sides(battles: pl.DataFrame) -> pl.DataFrame:
    """model, and tstamp and prompt where battles have them, of both sides of every battle."""
    more = [name for name in ("tstamp", PROMPT_COLUMN) if name in battles.columns]
    return pl.concat(battles.select(pl.col(side).alias("model"), *more) for side in ("model_a", "model_b"))


def model_lives(
    battles: pl.DataFrame, board: Sequence[Rating], method: RatingMethod, facts: FactsOfModels
) -> list[ModelLife]:
    """One row for each model, best first. `battles` come from `rateable`, `board` is what they give."""
    timed = "tstamp" in battles.columns and battles["tstamp"].null_count() < battles.height
    day = pl.col("tstamp").dt.date() if timed else pl.lit(None, pl.Date)
    spans = {
        model: span
        for model, *span in _sides(battles)
        .group_by("model")
        .agg(votes=pl.len(), first=day.min() if timed else day, last=day.max() if timed else day)
        .iter_rows()
    }
    last = battles["tstamp"].dt.date().max() if timed else None
    late = {row.model: row for row in _later(battles, board, method)} if timed else {}
    rows = []
    for row in board:
        count, began, ended = spans[row.model]
        rated, later = _finite(row), _finite(late.get(row.model))
        rows.append(
            ModelLife(
                model=row.model,
                provider=facts.get(row.model, ModelFacts()).provider,
                votes=count,
                first_day=began,
                last_day=ended,
                left=None if last is None or ended is None else (last - ended).days >= LEFT_DAYS,
                rating=rated,
                rating_late=later,
                moved=None if rated is None or later is None else later - rated,
                moved_by_chance=None if rated is None or later is None else _by_chance(row, late[row.model]),
            )
        )
    return rows


def _later(battles: pl.DataFrame, board: Sequence[Rating], method: RatingMethod) -> list[Rating]:
    """The board of the later half of the votes, on the scale of `board`."""
    dated = battles.drop_nulls("tstamp").sort("tstamp", maintain_order=True)
    half = dated.tail(dated.height - dated.height // 2)
    return rate_slice(votes(half, method.cluster), OVERALL, method, {row.model: row.rating for row in board})


def _finite(row: Rating | None) -> float | None:
    return None if row is None or "unbounded" in row.flags or "separate_group" in row.flags else row.rating


def _half_width(row: Rating) -> float:
    return 0.0 if row.ci95_low is None or row.ci95_high is None else (row.ci95_high - row.ci95_low) / 2


def _by_chance(whole: Rating, later: Rating) -> float:
    """Half width of the 95 % interval of the difference: the later votes are a part of all votes (Hausman 1978)."""
    return float(np.sqrt(max(_half_width(later) ** 2 - _half_width(whole) ** 2, 0.0)))


def months(battles: pl.DataFrame) -> list[ArenaMonth]:
    """One row for each month with a vote; none without times."""
    if "tstamp" not in battles.columns:
        return []
    dated = battles.drop_nulls("tstamp").with_columns(month=pl.col("tstamp").dt.strftime("%Y-%m"))
    spans = (
        _sides(dated).group_by("model").agg(pl.col("tstamp").min().alias("first"), pl.col("tstamp").max().alias("last"))
    )
    spans = spans.with_columns(pl.col("first", "last").dt.strftime("%Y-%m"))
    names = sorted(dated["month"].unique())
    seen, rows = set[object](), list[ArenaMonth]()
    for month in names:
        month_battles, so_far = dated.filter(month=month), dated.filter(pl.col("month") <= month)
        prompts = {*month_battles[PROMPT_COLUMN].drop_nulls()} if PROMPT_COLUMN in month_battles.columns else None
        rows.append(
            ArenaMonth(
                month=month,
                votes=month_battles.height,
                models=_sides(month_battles)["model"].n_unique(),
                came=spans.filter(first=month).height,
                left=spans.filter(last=month).height if month != names[-1] else 0,
                groups=_components(month_battles),
                groups_so_far=_components(so_far),
                prompts=None if prompts is None else len(prompts),
                seen_before=len(prompts & seen) / len(prompts) if prompts and rows else None,
            )
        )
        seen |= prompts or set()
    return rows


def _components(battles: pl.DataFrame) -> int:
    """Number of groups of models that no battle connects."""
    met = battles.select("model_a", "model_b").unique()
    names = pl.Enum(sorted({*met["model_a"], *met["model_b"]}))
    ends = [met[side].cast(names).to_physical().to_numpy() for side in ("model_a", "model_b")]
    size = len(names.categories)
    graph = csr_array((np.ones(met.height), (ends[0], ends[1])), shape=(size, size))
    return int(connected_components(graph, directed=False)[0])


def best_of(board: Sequence[Rating], facts: FactsOfModels) -> list[BestOf]:
    """One row for each provider with two or more models on the board, the largest bias first."""
    rows = list(_best_of(board, facts))
    return sorted(rows, key=lambda row: (-row.bias, row.provider))


def _best_of(board: Sequence[Rating], facts: FactsOfModels) -> Iterator[BestOf]:
    provider_of = {row.model: facts[row.model].provider for row in board if row.model in facts and _half_width(row) > 0}
    for provider in sorted({name for name in provider_of.values() if name is not None}):
        provider_rows = [row for row in board if provider_of.get(row.model) == provider and _finite(row) is not None]
        if len(provider_rows) > 1:
            best = max(provider_rows, key=lambda row: (row.rating, row.model))
            most = _expected_maximum(
                [row.rating for row in provider_rows], [_half_width(row) / NORMAL95 for row in provider_rows]
            )
            best_columns = {"best": best.model, "rating": best.rating, "bias": most - best.rating}
            yield BestOf(provider=provider, models=len(provider_rows), expected_maximum=most, **best_columns)


def _expected_maximum(means: Sequence[float], deviations: Sequence[float]) -> float:
    """Mean of the highest of independent normal draws: high end minus the integral of their distribution function."""
    mean, deviation = np.array(means), np.array(deviations)
    low, high = (mean - _DEVIATIONS * deviation).max(), (mean + _DEVIATIONS * deviation).max()
    grid = np.linspace(low, high, _GRID)
    chance = ndtr((grid[:, None] - mean) / deviation).prod(axis=1)
    return float(high - np.trapezoid(chance, grid))
