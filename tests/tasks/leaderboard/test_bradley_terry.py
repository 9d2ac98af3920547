"""Bradley-Terry ratings are the maximum-likelihood ones, to published numbers, real votes and independent fits."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.rating import Interval, RatingMethod
from tasks.leaderboard.battle_files import read_battles
from tasks.leaderboard.bradley_terry import SCALE, log_strengths, structure
from tasks.leaderboard.leaderboard import leaderboard
from tasks.leaderboard.records import elo_ratings, outlier_judges, pair_records, win_rates
from tasks.leaderboard.votes import rateable, votes
from tests.places import PUBLISHED
from tests.tasks.leaderboard.battle_tables import LABELS, beats, drawn, games

QUICK = RatingMethod()
TEXTBOOK = [
    *(beats("A", "B", 2) + beats("B", "A", 3) + beats("A", "D", 1) + beats("D", "A", 4)),
    *(beats("B", "C", 5) + beats("C", "B", 3) + beats("C", "D", 1) + beats("D", "C", 3)),
]
FOOD = """Pizza Sushi model_a|Burger Pasta model_b|Tacos Pizza model_a|Sushi Tacos model_b|Burger Pizza model_a
Pasta Sushi model_b|Tacos Burger model_a|Pizza Pasta tie|Sushi Burger model_b|Pasta Tacos model_a
Burger Sushi model_b|Tacos Pizza model_a|Sushi Pasta tie|Burger Tacos model_a|Pizza Burger model_b
Pasta Tacos model_b|Burger Sushi model_b|Tacos Pasta model_a|Pizza Tacos model_b|Sushi Burger model_a
Pasta Pizza model_b|Burger Sushi model_b|Tacos Pasta model_a|Pizza Sushi model_a|Sushi Burger model_b
Pasta Tacos model_b|Tacos Pizza model_a|Burger Pasta model_b|Sushi Tacos model_a|Pizza Burger model_b"""
FOOD_GOLDEN = {"Tacos": 0.43428983, "Sushi": 0.19060028, "Burger": 0.14797665, "Pasta": 0.12815341, "Pizza": 0.09897983}
"""evalica's golden Bradley-Terry strengths of these thirty games; they sum to one."""


def rated(battles: pl.DataFrame) -> dict[str, float]:
    return {row.model: row.rating for row in leaderboard(votes(rateable(battles)), method=QUICK)}


def strengths_of(battles: pl.DataFrame) -> dict[str, float]:
    told = votes(rateable(battles))
    return dict(zip(told.models, log_strengths(told.pairs, *told.sums(), len(told.models)), strict=True))


def minorised(battles: pl.DataFrame, rounds: int = 20_000) -> dict[str, float]:
    """Log-strengths by Zermelo's iteration in extended precision: another method, other arithmetic, row by row."""
    models = sorted({*battles["model_a"], *battles["model_b"]})
    number = {name: n for n, name in enumerate(models)}
    wins, met = np.zeros(len(models), np.longdouble), np.zeros((len(models), len(models)), np.longdouble)
    for a, b, winner in battles.iter_rows():
        i, j, score = number[a], number[b], LABELS.index(winner) / np.longdouble(2)
        wins[i], wins[j] = wins[i] + score, wins[j] + 1 - score
        met[i, j], met[j, i] = met[i, j] + 1, met[j, i] + 1
    power = np.ones(len(models), np.longdouble)
    for _ in range(rounds):
        new = wins / (met / (power[:, None] + power[None, :])).sum(axis=1)
        new /= np.exp(np.log(new).mean())
        done = np.abs(np.log(new / power)).max() < 1e-16
        power = new
        if done:
            break
    return dict(zip(models, np.log(power).astype(float), strict=True))


def test_published_strengths_are_reached():
    powers = {model: np.exp(value) for model, value in strengths_of(games(*TEXTBOOK)).items()}
    assert powers == pytest.approx({"A": 0.640, "B": 1.043, "C": 0.660, "D": 2.270}, rel=1e-3)
    battles = games(*(tuple(game.split()) for game in FOOD.replace("\n", "|").split("|")))
    powers = {model: np.exp(value) for model, value in strengths_of(battles).items()}
    total = sum(powers.values())
    assert {model: power / total for model, power in powers.items()} == pytest.approx(FOOD_GOLDEN, rel=1e-5)


@pytest.mark.parametrize(("battles", "models", "seed"), [(200, 4, 0), (3000, 12, 1), (900, 30, 2)])
def test_an_independent_fit_agrees_to_a_millionth_of_a_point(battles, models, seed):
    table = drawn(battles, models, seed)
    expected, found = minorised(table), strengths_of(table)
    assert max(abs(expected[name] - found[name]) for name in expected) * SCALE < 1e-6


def test_far_apart_models_are_fitted_exactly():
    chain = [game for n in range(6) for game in beats(f"m{n + 1}", f"m{n}", 500) + beats(f"m{n}", f"m{n + 1}", 1)]
    found = strengths_of(games(*chain))
    steps = [found[f"m{n + 1}"] - found[f"m{n}"] for n in range(6)]
    assert steps == pytest.approx([np.log(500)] * 6, abs=1e-9)


def test_ten_to_one_odds_are_400_points_and_ties_half_a_win_each():
    found = rated(games(*beats("good", "bad", 100), *beats("bad", "good", 10)))
    assert found["good"] - found["bad"] == pytest.approx(400)
    tied = games(*beats("A", "B", 5), *beats("B", "A", 1), *[("A", "B", "tie")] * 4)
    split = games(*beats("A", "B", 7), *beats("B", "A", 3))
    assert rated(tied) == pytest.approx(rated(split), abs=1e-8)


def test_the_mean_is_1000_and_an_anchor_has_its_rating():
    battles = drawn(500, 5)
    assert np.mean(list(rated(battles).values())) == pytest.approx(1000)
    anchored = leaderboard(votes(battles), method=RatingMethod(anchor_model="m2", anchor_rating=1114))
    anchor = next(row for row in anchored if row.model == "m2")
    assert (anchor.rating, anchor.ci95_low, anchor.ci95_high) == pytest.approx((1114, 1114, 1114))


tables = st.builds(drawn, st.integers(40, 200), st.integers(2, 6), st.integers(0, 10_000))


@settings(max_examples=25)
@given(tables, st.randoms(use_true_random=False))
def test_order_and_sides_of_votes_do_not_matter(battles, random):
    rows = battles.rows()
    random.shuffle(rows)
    other = {"model_a": "model_b", "model_b": "model_a", "tie": "tie"}
    turned = [(b, a, other[w]) if random.random() < 0.5 else (a, b, w) for a, b, w in rows]
    assert leaderboard(votes(games(*turned)), method=QUICK) == leaderboard(votes(battles), method=QUICK)


@settings(max_examples=25)
@given(tables, st.permutations(range(6)))
def test_names_of_models_do_not_matter(battles, order):
    renamed = battles.with_columns(pl.col("model_a", "model_b").replace({f"m{n}": f"x{order[n]}" for n in range(6)}))
    expected = {f"x{order[int(model[1:])]}": value for model, value in rated(battles).items()}
    assert rated(renamed) == pytest.approx(expected, abs=1e-6)


@settings(max_examples=25)
@given(tables, st.integers(2, 50))
def test_every_vote_many_times_gives_the_same_ratings_as_a_weight(battles, times):
    told = votes(battles)
    (wins, games), models = told.sums(), len(told.models)
    if not structure(told.pairs, wins, games, models)[1].all():
        return  # what stands in for a missing optimum is a fixed amount, not a share
    once = log_strengths(told.pairs, wins, games, models)
    few, many = rated(battles), rated(pl.concat([battles] * times))
    moved = many["m0"] - few["m0"]  # all by as much: other models may have the 100 battles whose mean is 1000
    assert many == pytest.approx({model: value + moved for model, value in few.items()}, abs=1e-6)
    assert log_strengths(told.pairs, wins * times, games * times, models) == pytest.approx(once, abs=1e-9)


@pytest.fixture(scope="module")
def battles() -> pl.DataFrame:
    return rateable(read_battles(PUBLISHED / "llmfao-votes.csv"))


@pytest.fixture(scope="module")
def golden() -> dict[str, dict[str, float]]:
    scores = pl.read_csv(PUBLISHED / "llmfao-golden-scores.csv")
    return {name: dict(scores.filter(algorithm=name).select("item", "score").iter_rows()) for name in NAMES}


NAMES = ("bradley_terry", "elo", "average_win_rate")


def test_ratings_elo_and_win_rates_match_evalicas_golden_scores(battles, golden):
    found = {row.model: row.rating for row in leaderboard(votes(battles), method=RatingMethod())}
    strengths = {model: np.log(score) for model, score in golden["bradley_terry"].items()}
    middle = np.mean(list(strengths.values()))
    expected = {model: 1000 + SCALE * (value - middle) for model, value in strengths.items()}
    assert found == pytest.approx(expected, abs=1e-4)  # the golden fit stopped at 1e-6
    assert sorted(found, key=found.get) == sorted(expected, key=expected.get)
    assert found["GPT 4"] == pytest.approx(1172.13, abs=0.005)
    half = {row.model: (row.ci95_high - row.ci95_low) / 2 for row in leaderboard(votes(battles))}
    assert np.mean(list(half.values())) == pytest.approx(36.51, rel=0.001)
    known = {"GPT 4": 54.78, "command": 33.91, "Weaver 12k": 10.31, "Vicuna-FastChat-T5 (3B)": 28.89}
    assert {model: half[model] for model in known} == pytest.approx(known, rel=0.01)
    assert {row.model: row.rating for row in elo_ratings(votes(battles))} == pytest.approx(golden["elo"], abs=1e-6)
    found = {row.model: row.average_win_rate for row in win_rates(pair_records(battles))}
    assert found == pytest.approx(golden["average_win_rate"], abs=1e-9)


def test_real_votes_of_one_worker_are_not_independent_and_few_workers_outliers(battles):
    plain, clustered = (
        leaderboard(votes(battles, cluster), method=RatingMethod(interval="bootstrap", bootstraps=300, cluster=cluster))
        for cluster in (None, "judge")
    )
    widths = [np.mean([row.ci95_high - row.ci95_low for row in rows]) for rows in (plain, clustered)]
    assert 1.02 < widths[1] / widths[0] < 1.6
    assert len(outlier_judges(votes(battles), battles["judge"])) <= 6


def test_real_votes_give_the_same_intervals_either_way(battles):
    widths = [
        {row.model: row.ci95_high - row.ci95_low for row in leaderboard(votes(battles), method=method)}
        for method in (RatingMethod(interval=Interval.BOOTSTRAP, bootstraps=400), RatingMethod())
    ]
    ratio = np.array([widths[0][model] / widths[1][model] for model in widths[0]])
    assert 0.97 < ratio.mean() < 1.06 and ratio.min() > 0.85 and ratio.max() < 1.2
