"""Votes that say more than who won: five-way verdicts, soft preferences, weights, and clusters."""

from functools import partial

import numpy as np
import polars as pl
import pytest

from schemas.errors import BadInput
from schemas.rating import Cluster, Interval, RatingMethod
from tasks.leaderboard.battle_files import read_battles
from tasks.leaderboard.leaderboard import leaderboard
from tasks.leaderboard.rating_tables import RatingTables
from tasks.leaderboard.records import pair_records, win_rates
from tasks.leaderboard.style_control import style_board
from tasks.leaderboard.votes import rateable, votes
from tests.places import PUBLISHED
from tests.tasks.leaderboard.battle_tables import beats, drawn, games

PRINTED = {"gpt-4-vision-preview": 80.01, "Reka-Flash": 64.79, "claude-3-opus-20240229": 62.15}
"""Scores of WildVision's Table 4, in percent."""
REFERENCE = "claude-3-sonnet-20240229"


def board(battles, **method):
    method = RatingMethod(**method)
    return {row.model: row for row in leaderboard(votes(rateable(battles), method.cluster), method=method)}


def read(folder, content):
    (folder / "v.csv").write_text(content)
    return read_battles(folder / "v.csv")


def test_five_way_verdicts_give_the_win_chances_and_win_rates_that_wildvision_prints(tmp_path):
    labels = pl.read_csv(PUBLISHED / "wildvision-labels.csv").drop_nulls("label_parsed")
    told = labels.filter(pl.col("model").is_in(list(PRINTED)))
    told.select(model_a=pl.lit(REFERENCE), model_b="model", winner="label_parsed").write_csv(tmp_path / "v.csv")
    battles = rateable(read_battles(tmp_path / "v.csv"))
    rows = board(battles)
    chances = {m: 100 / (1 + 10 ** ((rows[REFERENCE].rating - rows[m].rating) / 400)) for m in PRINTED}
    assert chances == pytest.approx(PRINTED, abs=0.005)
    rates = {row.model: row.average_win_rate for row in win_rates(pair_records(battles), REFERENCE)}
    assert {model: 100 * rates[model] for model in PRINTED} == pytest.approx(PRINTED, abs=0.005)
    assert rows["Reka-Flash"].battles == 492


def test_a_weight_of_three_is_three_votes_in_ratings_and_one_in_counts(tmp_path):
    head = "model_a,model_b,winner,weight\n"
    weighed = read(tmp_path, head + "A,B,model_a,3\nB,A,model_a,1\nA,B,tie,2\n")
    copied = games(*beats("A", "B", 3), *beats("B", "A", 1), *[("A", "B", "tie")] * 2)
    ours, theirs = board(weighed), board(copied)
    assert ours["A"].rating == pytest.approx(theirs["A"].rating) and (ours["A"].battles, theirs["A"].battles) == (3, 6)
    assert board(read(tmp_path, head + "A,B,A>>B,1\nB,A,A>B,1\nA,B,A=B,2\n"))["A"].rating == ours["A"].rating
    style = {f"tokens_{side}": pl.Series([3, 4, 5]) for side in "ab"}
    (first, second), _ = style_board(rateable(weighed.with_columns(**style)), RatingMethod())
    assert first.model == "A" and first.rating - second.rating > 50


def test_soft_preferences_are_scores_between_a_loss_and_a_win(tmp_path):
    soft = read(tmp_path, "generator_1,generator_2,preference\nA,B,1.0\nA,B,1.25\nA,B,2.0\nB,A,1.5\n")
    assert soft["winner"].to_list() == ["model_a", "model_a", "model_b", "tie"]
    rows = board(soft)
    share = (1 + 0.75 + 0 + 0.5) / 4
    assert rows["A"].rating - rows["B"].rating == pytest.approx(400 * np.log10(share / (1 - share)))
    assert win_rates(pair_records(rateable(soft)))[0].average_win_rate == pytest.approx(share)


@pytest.mark.parametrize("column", ["preference\nA,B,2.1", "preference\nA,B,", "winner,weight\nA,B,tie,-1"])
def test_a_preference_or_weight_that_is_none_is_one_clear_line(tmp_path, column):
    with pytest.raises(BadInput, match=r"is not a number from \d .* in 1 of 1 battles"):
        read(tmp_path, f"model_a,model_b,{column}\n")


def test_battles_whose_model_names_were_visible_are_left_out(tmp_path):
    found = read(tmp_path, "model_a,model_b,winner,anony\nA,B,model_a,True\nA,B,model_b,False\nA,B,tie,\n")
    assert found["winner"].to_list() == ["model_a", "tie"]


def test_votes_copied_within_their_clusters_say_no_more_than_the_votes():
    battles = drawn(600, 4, question_id=[f"q{n}" for n in range(600)])
    copied = pl.concat([battles] * 4)
    method = {"interval": Interval.BOOTSTRAP, "bootstraps": 1500}
    width = lambda rows: np.mean([row.ci95_high - row.ci95_low for row in rows.values()])  # noqa: E731
    once, naive = width(board(battles, **method)), width(board(copied, **method))
    clustered = width(board(copied, cluster=Cluster.QUESTION, bootstraps=1500))
    assert clustered == pytest.approx(once, rel=0.07) and naive == pytest.approx(once / 2, rel=0.07)


def test_clustered_intervals_hold_the_truth_where_plain_ones_do_not():
    held: dict[Cluster | None, list[bool]] = {None: [], Cluster.JUDGE: []}
    for seed in range(60):
        generator = np.random.default_rng(seed)
        # 40 judges with 25 votes each; a judge prefers A or B for good, and on the whole both are as strong
        taste = generator.choice([0.2, 0.8], 40).repeat(25)
        winner = np.where(generator.random(1000) < taste, "model_a", "model_b")
        table = pl.DataFrame({"winner": winner, "judge": [f"j{n}" for n in range(40) for _ in range(25)]})
        table = table.with_columns(model_a=pl.lit("A"), model_b=pl.lit("B"))
        for cluster, found in held.items():
            row = board(table, cluster=cluster, bootstraps=200)["A"]
            found.append(row.ci95_low <= 1000 <= row.ci95_high)
    assert np.mean(held[Cluster.JUDGE]) > 0.88 > 0.7 > np.mean(held[None])


def test_a_cluster_that_the_table_lacks_is_an_error_and_votes_without_one_stand_alone():
    with pytest.raises(BadInput, match="no column user, so cluster user"):
        board(drawn(40, 3), cluster=Cluster.USER)
    told = votes(rateable(drawn(4, 3, judge=["x", None, "x", None])), Cluster.JUDGE)
    assert told.cluster is not None and len(set(told.cluster)) == 3 and told.cluster[0] == told.cluster[2]


TABLES = ["style_control", "style_coefficients", "rank_changes", "pair_records", "win_rates", "elo_ratings"]


@pytest.mark.parametrize("name", TABLES)
def test_every_table_of_a_slice_is_that_of_its_battles_alone(name):
    counts = {f"tokens_{side}": np.random.default_rng(n).poisson(50, 800) for n, side in enumerate("ab")}
    battles = drawn(800, 4, language=["English", "Russian", None, "English"] * 200, **counts)
    tables = partial(RatingTables, method=RatingMethod(anchor_model="m1"))
    found = tables(battles, slices=("language:English",)).rows(name)
    alone = tables(battles.filter(language="English")).rows(name)
    assert found and {row.slice for row in found} == {"language:English"}
    for row, other in zip(found, alone, strict=True):
        values, expected = ({k: v for k, v in r.model_dump(exclude={"slice"}).items() if v != []} for r in (row, other))
        assert values == pytest.approx(expected)
    assert {row.slice for row in tables(battles, slices=("all",)).rows(name)} >= {
        "language:English",
        "language:Russian",
    }


def test_a_reference_that_has_no_battle_in_a_slice_is_no_error():
    table = drawn(400, 3, language=["en"] * 400).rows() + [("m0", "late", "model_a", "fr")] * 3
    battles = pl.DataFrame(table, schema=["model_a", "model_b", "winner", "language"], orient="row")
    rows = RatingTables(battles, RatingMethod(), ("language:en",), "late").rows("win_rates")
    assert {row.model for row in rows} == {"m0", "m1", "m2"} and {row.battles_vs_reference for row in rows} == {0}
    with pytest.raises(BadInput, match="Known: late, m0, m1, m2"):
        RatingTables(battles, RatingMethod(), (), "early").rows("win_rates")
