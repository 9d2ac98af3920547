"""Style control recovers what style does to votes, under either published recipe."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize

from schemas.errors import BadInput
from schemas.rating import Interval, RatingMethod, StyleCoefficient, StylePreset
from tasks.leaderboard.bradley_terry import SCALE
from tasks.leaderboard.intervals import draws
from tasks.leaderboard.leaderboard import leaderboard
from tasks.leaderboard.rating_tables import RatingTables
from tasks.leaderboard.style_control import bootstrap_fits, fit, rank_changes, style_board, style_differences, styled
from tasks.leaderboard.votes import votes

COVARIATES = ("tokens", "headers", "list_items", "bold")


def styled_battles(battles=3000, models=5, effect=1.0, seed=0) -> pl.DataFrame:
    """Every model is as strong; m4 writes twice as long, and people like length by `effect` a standard deviation."""
    generator = np.random.default_rng(seed)
    first = generator.integers(0, models, battles)
    second = (first + generator.integers(1, models, battles)) % models
    counts = {}
    for side, model in (("a", first), ("b", second)):
        counts[f"tokens_{side}"] = generator.poisson(np.where(model == models - 1, 400, 200)) + 1
        for name in COVARIATES[1:]:
            counts[f"{name}_{side}"] = generator.poisson(3, battles)
    table = pl.DataFrame({"model_a": [f"m{n}" for n in first], "model_b": [f"m{n}" for n in second], **counts})
    length = style_differences(table, ["tokens"])[:, 0]
    won = generator.random(battles) < 1 / (1 + np.exp(-effect * length))
    return table.with_columns(winner=pl.Series(np.where(won, "model_a", "model_b")))


def written_out(battles, weight, penalty_strengths, penalty_coefficients) -> np.ndarray:
    """The published objective, row by row, minimised by a general method."""
    told, style = votes(battles), style_differences(battles, COVARIATES)
    design = np.zeros((len(style), len(told.models) + 4))
    rows = np.arange(len(style))
    left = np.where(told.swapped, told.pairs[told.pair, 1], told.pairs[told.pair, 0])
    right = np.where(told.swapped, told.pairs[told.pair, 0], told.pairs[told.pair, 1])
    design[rows, left], design[rows, right], design[:, -4:] = 1, -1, style
    score = (battles["winner"] == "model_a").to_numpy().astype(float)
    penalty = np.repeat([penalty_strengths, penalty_coefficients], [len(told.models), 4])

    def loss(parameters):
        odds = design @ parameters
        nll = weight * (np.logaddexp(0, odds) - score * odds)
        gradient = design.T @ (weight * (1 / (1 + np.exp(-odds)) - score)) + penalty * parameters
        return nll.sum() + 0.5 * penalty @ parameters**2, gradient

    return minimize(loss, np.zeros(design.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-7, "maxiter": 2000}).x


def numbers_of(battles, preset):
    rows, coefficients = style_board(battles, RatingMethod(style_preset=preset))
    ratings = {row.model: row.rating for row in rows}
    return np.array([*(ratings[m] for m in sorted(ratings)), *(c.coefficient for c in coefficients)])


def test_the_fastchat_preset_is_fastchats_objective():
    battles = styled_battles()
    expected = written_out(battles, 1.0, 0.5 / np.log(10) ** 2, 0.5)
    strengths = expected[:5] - expected[:5].mean()
    found = numbers_of(battles, StylePreset.FASTCHAT)
    assert found[:5] == pytest.approx(1000 + SCALE * strengths, abs=1e-4)
    assert found[5:] == pytest.approx(expected[5:], abs=1e-6)


def test_the_arena_rank_preset_is_arena_ranks_objective():
    battles = styled_battles()
    pairs = votes(battles).pair
    weight = 1 / np.maximum(np.bincount(pairs), 50)[pairs]
    expected = written_out(battles, weight / weight.mean(), 1e-5, float(len(pairs)))
    strengths = expected[:5] - expected[:5].mean()
    found = numbers_of(battles, StylePreset.ARENA_RANK)
    assert found[:5] == pytest.approx(1000 + SCALE * strengths, abs=1e-3)
    assert found[5:] == pytest.approx(expected[5:], abs=1e-6)


def test_a_model_that_only_writes_longer_loses_its_lead():
    battles = styled_battles(seed=2)
    method = RatingMethod()
    plain, (controlled, coefficients) = leaderboard(votes(battles), method=method), style_board(battles, method)
    assert plain[0].model == "m4" and plain[0].rating > 1100
    assert all(row.ci95_low < 1000 < row.ci95_high for row in controlled)
    length = coefficients[0]
    assert length.covariate == "tokens" and length.ci95_low < 1.0 < length.ci95_high
    assert all(row.ci95_low < 0 < row.ci95_high for row in coefficients[1:])
    first = rank_changes(plain, controlled)[0]
    assert first.rank_change == first.rank - first.rank_style
    assert abs(first.rank_change) == max(abs(row.rank_change) for row in rank_changes(plain, controlled))


@pytest.mark.parametrize("preset", StylePreset)
def test_style_intervals_by_sandwich_and_bootstrap_agree(preset):
    battles = styled_battles(1500)
    methods = [RatingMethod(bootstraps=1000, interval=interval, style_preset=preset) for interval in reversed(Interval)]
    both = [style_board(battles, method) for method in methods]
    for sandwich, bootstrap in zip(*(rows + coefficients for rows, coefficients in both), strict=True):
        assert sandwich.ci95_high - sandwich.ci95_low == pytest.approx(
            bootstrap.ci95_high - bootstrap.ci95_low, rel=0.12
        )


def test_every_round_is_the_optimum_of_its_drawn_votes():
    battles = styled_battles(2000)
    cast = votes(battles)
    data = styled(cast, style_differences(battles, COVARIATES))
    point = fit(data)
    found = bootstrap_fits(data, point, rounds=3, seed=5)
    for times, parameters in zip(draws(cast, 3, 5), found, strict=True):
        chosen = np.repeat(np.arange(2000), times.astype(int))
        again = replace(cast, pair=cast.pair[chosen], score=cast.score[chosen])
        drawn = replace(data, cast=again, style=data.style[chosen], weight=data.weight[chosen])
        assert parameters == pytest.approx(fit(drawn), abs=1e-6)
        assert np.abs(parameters - point).max() > 0.01


def test_differences_are_relative_and_standardised():
    table = pl.DataFrame({"bold_a": [1, 0, 4], "bold_b": [0, 3, 4]})
    relative = np.array([1 / 2, -3 / 4, 0])
    expected = (relative - relative.mean()) / relative.std()
    assert style_differences(table, ["bold"])[:, 0] == pytest.approx(expected)


def test_a_covariate_that_never_differs_is_zero_and_entities_count_where_both_sides_have_them():
    battles = styled_battles(400).with_columns(headers_a=pl.lit(2), headers_b=pl.lit(2))
    headers = next(c for c in style_board(battles, RatingMethod())[1] if c.covariate == "headers")
    assert (headers.coefficient, headers.ci95_low, headers.ci95_high, headers.flags) == (0, 0, 0, ["constant"])
    battles = styled_battles(300).with_columns(entities_a=pl.col("bold_a"), entities_b=pl.col("headers_b"))
    assert [c.covariate for c in style_board(battles, RatingMethod())[1]] == [*COVARIATES, "entities"]


def test_a_model_that_never_lost_has_no_upper_bound_under_either_preset():
    hero = pl.DataFrame({"model_a": ["hero"] * 6, "model_b": ["m0"] * 6, "winner": ["model_a"] * 6})
    battles = pl.concat([styled_battles(500), hero], how="diagonal").fill_null(5)
    for preset in StylePreset:
        rows, _ = style_board(battles, RatingMethod(style_preset=preset))
        top = next(row for row in rows if row.model == "hero")
        assert np.isfinite([top.rating, top.ci95_low]).all() and "only_wins" in top.flags
        assert (top.ci95_high, top.rank) == (None, None)


def test_one_answer_of_endless_length_does_not_throw_the_fit_off():
    battles = styled_battles(400).with_columns(headers_a=pl.Series([10_000] + [0] * 399), headers_b=pl.lit(0))
    battles = battles.with_columns(winner=pl.Series(["model_b", *battles["winner"][1:]]))
    expected = written_out(battles, 1.0, 0.5 / np.log(10) ** 2, 0.5)
    assert numbers_of(battles, StylePreset.FASTCHAT)[5:] == pytest.approx(expected[5:], abs=1e-5)


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf"), -1.0])
def test_a_covariate_that_is_no_count_is_an_error_that_names_it(bad):
    battles = styled_battles(50).with_columns(pl.Series("tokens_b", [bad] + [1.0] * 49))
    with pytest.raises(BadInput, match=r"tokens_b .* 1 of 50"):
        style_board(battles, RatingMethod())


def named_battles(unknown: float, battles: int, seed: int) -> pl.DataFrame:
    """Equal models, of which m4 writes twice as long and names thrice as much; people like both, by 1 a deviation.

    `unknown`: share of the battles on which names are not counted.
    """
    table, draw = styled_battles(battles, seed=seed), np.random.default_rng(seed + 1)
    names = {}
    for side in "ab":
        usual = np.where(table[f"model_{side}"] == "m4", 60, 20)
        names[f"entities_{side}"] = draw.poisson(usual * np.exp(draw.normal(0, 0.2, battles)))
    table = table.with_columns(**{name: pl.Series(counts) for name, counts in names.items()})
    odds = style_differences(table, ["tokens", "entities"]).sum(axis=1)
    won = draw.random(battles) < 1 / (1 + np.exp(-odds))
    lacking = pl.Series(draw.random(battles) < unknown)
    return table.with_columns(
        pl.when(~lacking).then(pl.col(*names)),
        winner=pl.Series(np.where(won, "model_a", "model_b")),
    )


def effects_of(battles: pl.DataFrame, *, as_mean: bool = False) -> dict[str, StyleCoefficient]:
    """Covariate -> its row on the overall board."""
    method = RatingMethod(unknown_style_as_mean=as_mean)
    return {row.covariate: row for row in RatingTables(battles, method).rows("style_coefficients")}


def test_the_effect_of_names_is_that_of_the_votes_with_a_count_and_the_mean_in_place_of_it_is_wrong():
    inside, inside_by_mean = 0, 0
    for seed in range(10):
        battles = named_battles(0.6, 4000, seed)
        effect, by_mean = effects_of(battles)["entities"], effects_of(battles, as_mean=True)["entities"]
        counted = battles.drop_nulls("entities_a").height
        assert (effect.battles, effect.of, effect.flags) == (counted, 4000, ["not_on_board"])
        inside += effect.ci95_low < 1 < effect.ci95_high
        inside_by_mean += by_mean.ci95_low < 1 < by_mean.ci95_high
    assert inside >= 9 and inside_by_mean <= 4


def test_where_most_votes_have_a_count_the_board_is_of_them_and_equals_that_of_these_votes_alone():
    battles = named_battles(0.3, 2000, 3)
    tables, counted = (RatingTables(rows, RatingMethod()) for rows in (battles, battles.drop_nulls("entities_a")))
    effects = tables.rows("style_coefficients")
    assert {row.of for row in effects} == {2000} and {row.battles for row in effects} == {counted.rated.height}
    assert [row.coefficient for row in effects] == [row.coefficient for row in counted.rows("style_coefficients")]
    assert all("entities_known" in row.flags for row in tables.rows("style_control"))
    assert not any("entities_known" in row.flags for row in counted.rows("style_control"))


def test_where_most_votes_lack_a_count_the_board_is_of_all_votes_without_names_and_says_so():
    battles = named_battles(0.6, 2000, 4)
    tables = RatingTables(battles, RatingMethod())
    without = RatingTables(battles.drop("entities_a", "entities_b"), RatingMethod())
    board, expected = tables.rows("style_control"), without.rows("style_control")
    assert [row.rating for row in board] == [row.rating for row in expected]
    assert [row.flags for row in board] == [[*row.flags, "without_entities"] for row in expected]


@pytest.mark.parametrize("counted", [0, 29])
def test_an_effect_of_names_is_null_where_under_thirty_votes_have_a_count(counted):
    battles = named_battles(0, 200, 5)
    lacking = pl.int_range(pl.len()) >= counted
    battles = battles.with_columns(pl.when(~lacking).then(pl.col("entities_a")).alias("entities_a"))
    effect = effects_of(battles)["entities"]
    assert (effect.coefficient, effect.ci95_low, effect.ci95_high) == (None, None, None)
    assert (effect.battles, effect.of, effect.flags) == (counted, 200, ["unknown"])


def test_releases_of_before_gave_the_mean_difference_to_a_battle_without_a_count_and_no_other_board_takes_one():
    table = pl.DataFrame({"entities_a": [4, 0, None, 2], "entities_b": [1, 3, 5, None]})
    by_mean = style_differences(table, ["entities"], unknown_as_mean=True)
    assert by_mean[:2].tolist() == style_differences(table[:2], ["entities"]).tolist()
    assert by_mean[2:].tolist() == [[0.0], [0.0]]
    with pytest.raises(BadInput, match="entities_a is missing, negative or not a number in 1 of 4 battles"):
        style_differences(table, ["entities"])
    with pytest.raises(BadInput, match="tokens_a is missing, negative or not a number in 1 of 2 battles"):
        style_differences(pl.DataFrame({"tokens_a": [1, None], "tokens_b": [1, 1]}), ["tokens"])


def test_what_all_opponents_of_a_baseline_share_is_controlled_for():
    """All models are as strong; opponents of the baseline, always left, write about twice as long, and length wins."""
    generator = np.random.default_rng(4)
    ours, theirs = generator.poisson(200, 6000), generator.poisson(400 * generator.uniform(0.7, 1.4, 6000))
    won = generator.random(6000) < 1 / (1 + np.exp(-3 * (ours - theirs) / (ours + theirs)))
    opponents = [f"m{n % 3}" for n in range(6000)]
    winner = np.where(won, "model_a", "model_b")
    counts = {"tokens_a": ours, "tokens_b": theirs}
    battles = pl.DataFrame({"model_a": "base", "model_b": opponents, "winner": winner, **counts})
    rows = {row.model: row for row in RatingTables(battles, RatingMethod()).rows("style_control")}
    leads = [rows[name].rating - rows["base"].rating for name in ("m0", "m1", "m2")]
    assert max(map(abs, leads)) < 40
