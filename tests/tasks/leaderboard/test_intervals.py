"""Intervals hold the truth in 95 %, ranks respect them, and the planned votes separate a pair."""

import json
from functools import partial

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

from benchmarks.rate_coverage import NEWCOMER_VOTES, newcomer_held
from benchmarks.rate_coverage import TIES as TIES_OF_NEWCOMERS
from schemas.rating import Interval, RatingMethod
from tasks.leaderboard.battle_files import read_battles
from tasks.leaderboard.bradley_terry import SCALE, log_strengths
from tasks.leaderboard.intervals import NORMAL95, bootstrap_strengths, draws, quantiles95, ranks, sampled_leads
from tasks.leaderboard.leaderboard import leaderboard
from tasks.leaderboard.vote_plan import separations
from tasks.leaderboard.votes import rateable, votes
from tests.places import DATA, needs_data
from tests.tasks.leaderboard.battle_tables import beats, drawn, games

BOOTSTRAP = Interval.BOOTSTRAP


def widths(battles, **method):
    rows = leaderboard(votes(battles), method=RatingMethod(**method))
    return {row.model: row.ci95_high - row.ci95_low for row in rows}


@pytest.mark.parametrize("anchor", [None, "m1"])
def test_sandwich_and_bootstrap_agree_within_ten_percent(anchor):
    battles = drawn(4000, 6)
    bootstrap = widths(battles, interval=BOOTSTRAP, bootstraps=1500, anchor_model=anchor)
    sandwich = widths(battles, anchor_model=anchor)
    assert sandwich == pytest.approx(bootstrap, rel=0.1, abs=1e-9)


def test_95_percent_of_intervals_hold_the_true_rating():
    truth = {f"m{n}": SCALE * 0.3 * (n - 2) for n in range(5)}
    held = []
    for seed in range(200):
        for row in leaderboard(votes(drawn(300, 5, seed, tie_probability=0.0))):
            held.append(row.ci95_low - 1000 <= truth[row.model] <= row.ci95_high - 1000)
    assert 0.935 <= np.mean(held) <= 0.97


@pytest.mark.parametrize("votes_each", [2, 40])
def test_resampled_votes_are_as_many_and_spread_as_multinomial_counts(votes_each):
    told = votes(games(*beats("A", "B", votes_each), *beats("B", "A", 2 * votes_each), *beats("B", "C", votes_each)))
    counts = told.grouped().times
    rounds = np.stack(list(draws(told.grouped(), 4000, seed=1)))
    total = counts.sum()
    assert (rounds.sum(axis=1) == total).all() and len(counts) == 3
    share = counts / total
    assert rounds.mean(axis=0) == pytest.approx(counts, rel=0.05)
    assert rounds.var(axis=0) == pytest.approx(total * share * (1 - share), rel=0.12)


def test_the_same_seed_draws_the_same_and_another_seed_draws_others():
    battles = drawn(500, 4)
    assert widths(battles, interval=BOOTSTRAP, seed=3) == widths(battles, interval=BOOTSTRAP, seed=3)
    assert widths(battles, interval=BOOTSTRAP, seed=3) != widths(battles, interval=BOOTSTRAP, seed=4)


def test_more_rounds_begin_with_the_rounds_of_fewer():
    told = votes(drawn(300, 4)).grouped()
    point = log_strengths(told.pairs, *told.sums(), 4)
    few, many = (bootstrap_strengths(told, point, rounds, 0) for rounds in (7, 40))
    assert (many[:7] == few).all()


def test_a_round_of_the_bootstrap_is_the_fit_of_its_votes():
    told = votes(drawn(400, 5)).grouped()
    point = log_strengths(told.pairs, *told.sums(), 5)
    samples = bootstrap_strengths(told, point, 5, seed=2)
    cold = [log_strengths(told.pairs, *told.sums(times), 5) for times in draws(told, 5, seed=2)]
    assert samples == pytest.approx(np.array(cold), abs=1e-9)


def test_quantiles_are_those_at_rounds_plus_one_times_p_of_rounds_with_the_model():
    low, high = quantiles95(np.arange(1.0, 80.0)[:, None], np.zeros(1))  # the 2nd and the 78th of 79
    assert (low.item(), high.item()) == pytest.approx((2.0, 78.0))
    samples = np.array([[1.0, np.nan, np.nan], [3.0, 5.0, np.nan]])
    low, high = quantiles95(samples, np.array([2.0, 5.0, 9.0]))
    assert low == pytest.approx([1.0, 5.0, 9.0]) and high == pytest.approx([3.0, 5.0, 9.0])


def ranked(group, core):
    leads = np.array([[0.0, -1.0, 11.0, -20.0], [-9.0, 0.0, 1.0, -30.0], [-30.0, -20.0, 0.0, -40.0], [-50.0] * 4])
    return ranks(leads, np.array(group), np.array(core, bool))


def test_rank_counts_the_models_of_the_core_whose_lead_is_wholly_above_nothing():
    assert ranked([0, 0, 0, 0], [1, 1, 1, 1]) == [1, 1, 3, 1]
    assert ranked([0, 0, 1, 0], [1, 1, 1, 1]) == [1, 1, 1, 1]
    assert ranked([0, 0, 0, 0], [0, 1, 1, 1]) == [None, 1, 2, 1]


def test_what_two_models_share_in_all_rounds_says_nothing_about_their_difference():
    shared, own = np.random.default_rng(0).normal(0, 1, (2, 400))
    samples = np.stack([shared, shared + 0.01 * own - 1, -shared], axis=1)
    leads = sampled_leads(samples, np.array([0.0, -1.0, 0.0]))
    assert leads[0, 1] == pytest.approx(0.98, abs=0.005) and leads[1, 0] == pytest.approx(-1.02, abs=0.005)
    assert leads[0, 2] < -3 and leads[2, 0] < -3


NEWCOMERS = {
    "a win and a loss": [*beats("new", "m1"), *beats("m1", "new")],
    "one tie": [("new", "m2", "tie")],
    "ties alone": [("new", f"m{n}", "tie") for n in (0, 1, 2, 3, 3)],
    "a win": beats("new", "m4"),
    "a tie and a far win": [("new", "m0", "tie"), *beats("new", "m4")],
    "twenty votes, one won": [*beats("m2", "new", 19), *beats("new", "m4")],
}
METHODS = {
    "sandwich": RatingMethod(),
    "bootstrap": RatingMethod(interval=BOOTSTRAP),
    "clusters": RatingMethod(cluster="judge"),
}


@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize("newcomer", NEWCOMERS)
def test_a_newcomer_moves_no_rank_of_others_and_says_no_more_than_its_votes(newcomer, kind):
    judged = pl.Series("judge", [f"j{n % 300}" for n in range(900)])
    old = drawn(900, 5, seed=7).with_columns(judge=judged)
    new = games(*NEWCOMERS[newcomer]).with_columns(judge=pl.lit("j0"))
    before, after = (
        {row.model: row for row in leaderboard(votes(table, METHODS[kind].cluster), method=METHODS[kind])}
        for table in (old, pl.concat([old, new]))
    )
    found = after.pop("new")
    if kind == "sandwich":  # other rounds are drawn for other votes
        assert {m: row.rank for m, row in after.items()} == {m: row.rank for m, row in before.items()}
        wide = {m: row.ci95_high - row.ci95_low for m, row in before.items()}
        assert {m: row.ci95_high - row.ci95_low for m, row in after.items()} == pytest.approx(wide, rel=0.02)
    # n even votes of which 30 % tie are worth a deviation of 2 sqrt(0.7 / n) log-odds; uneven ones are worth less
    least = 0.98 * NORMAL95 * SCALE * 2 * np.sqrt(0.7 / new.height)
    assert "few_votes" in found.flags and ("only_ties" in found.flags) == (set(new["winner"]) == {"tie"})
    assert found.ci95_high is None or (found.ci95_high - found.ci95_low) / 2 >= least


def test_models_are_told_apart_by_their_own_battles_whatever_the_mean_or_the_anchor_rests_on():
    far = games(*beats("a", "b", 300), *beats("b", "a", 150), *beats("few", "b", 2), *beats("b", "few", 2))
    for method in (RatingMethod(), RatingMethod(anchor_model="few"), RatingMethod(interval=BOOTSTRAP)):
        rows = {row.model: row for row in leaderboard(votes(far), method=method)}
        assert (rows["a"].rank, rows["b"].rank) == (1, 2)
    anchored = {r.model: r for r in leaderboard(votes(far), method=RatingMethod(anchor_model="few"))}
    assert anchored["a"].ci95_low < anchored["b"].ci95_high and anchored["few"].ci95_low == anchored["few"].rating


def test_a_board_of_ties_alone_has_wide_intervals_and_says_so():
    tied = games(*[("a", "b", "tie")] * 50, *[("b", "c", "tie")] * 40)
    for method in (RatingMethod(), RatingMethod(interval=BOOTSTRAP, bootstraps=20)):
        rows = leaderboard(votes(tied), method=method)
        assert all(row.ci95_high - row.ci95_low > 10 and row.rank == 1 and "only_ties" in row.flags for row in rows)


@needs_data
def test_two_votes_on_a_fifth_model_leave_four_ranks_as_they_are():
    folder = DATA / "public-reports" / "newcomer-with-two-votes"
    before, after = (leaderboard(votes(rateable(read_battles(folder / f"{n}.jsonl")))) for n in ("before", "after"))
    first, second = ({r.model: (r.rank, r.ci95_low, r.ci95_high) for r in rows} for rows in (before, after))
    assert [rank for rank, *_ in first.values()] == [1, 2, 2, 3]
    assert {model: second[model] for model in first} == {m: pytest.approx(of, abs=1) for m, of in first.items()}


@pytest.mark.parametrize("ties", TIES_OF_NEWCOMERS)
@pytest.mark.parametrize("count", NEWCOMER_VOTES)
def test_the_interval_of_a_newcomer_holds_its_strength_in_nine_of_ten_draws_or_more(count, ties):
    held = [newcomer_held(2.0, count, ties, seed) for seed in range(40)]
    assert np.mean(held) >= 0.9


TIES, DRAWS = 0.3, 40


@pytest.fixture
def curate(curate):
    """Run `curate rate`: (exit status, stdout, stderr)."""
    return partial(curate, "rate")


def plan(curate, battles, tmp_path, *options):
    battles.write_csv(tmp_path / "v.csv")
    code, out, err = curate(tmp_path / "v.csv", "--table", "plan", "--json", *options)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def cast(row, generator):
    """The planned votes of a row, drawn from the ratings as they are, with ties."""
    won = expit(row.difference / SCALE) - TIES / 2
    winner = generator.choice(["model_a", "tie", "model_b"], row.votes, p=[won, TIES, 1 - TIES - won])
    return pl.DataFrame({"model_a": row.model, "model_b": row.rival, "winner": winner})


def test_exactly_the_planned_votes_separate_each_pair_in_most_draws_and_half_of_them_less_often():
    battles = rateable(drawn(700, 6, seed=4, tie_probability=TIES))
    wanted = [row for row in separations(battles, "overall") if not row.flags]
    assert len(wanted) == 2 and all(row.votes for row in wanted)
    shares = []
    for part in (1.0, 0.5):
        planned = [row.model_copy(update={"votes": int(row.votes * part)}) for row in wanted]
        separated = []
        for seed in range(DRAWS):
            generator = np.random.default_rng(seed)
            more = pl.concat([battles, *(rateable(cast(row, generator)) for row in planned)])
            found = {(row.model, row.rival): row for row in separations(more, "overall")}
            near = [found.get((row.model, row.rival)) for row in wanted]
            separated += [row is not None and row.difference > NORMAL95 * row.deviation for row in near]
        shares.append(sum(separated) / len(separated))
    assert shares[0] >= 0.7 > shares[1]


def test_a_language_gets_a_board_by_its_planned_votes(curate, tmp_path):
    battles = drawn(900, 4, language=["English", "English", "Thai"] * 300)
    thai = battles.filter(language="Thai").head(60)
    battles = pl.concat([battles.filter(language="English"), thai])
    (total,) = [row for row in plan(curate, battles, tmp_path) if row["goal"] == "board"]
    assert (total["slice"], total["now"], total["model"]) == ("language:Thai", 60, None)
    rows = [r for r in plan(curate, battles, tmp_path, "--slice", "language:Thai") if r["goal"] == "board"]
    assert sum(row["votes"] for row in rows) == total["votes"]
    more = [(*(row[side] for side in ("model", "rival")), "tie") for row in rows for _ in range(row["votes"])]
    board = leaderboard(votes(rateable(pl.concat([thai.drop("language"), games(*more)]))))
    assert len(board) == 4 and all(row.rank and "few_battles" not in row.flags for row in board)


def test_what_no_number_of_votes_separates_has_none_and_a_far_pair_needs_none(curate, tmp_path):
    even = games(*beats("a", "b", 60), *beats("b", "a", 60), *beats("b", "c", 90), *beats("c", "b", 10))
    first, second = plan(curate, even, tmp_path)
    assert (first["votes"], first["flags"]) == (None, ["too_close"])
    assert (second["votes"], second["flags"]) == (0, ["separated"])
    assert plan(curate, games(*beats("hero", "b", 30)), tmp_path) == []
