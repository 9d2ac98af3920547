"""How many more votes a board needs: adding exactly those separates the pair, and gives each language a board."""

import json
from functools import partial

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

from tasks.leaderboard.bradley_terry import SCALE
from tasks.leaderboard.intervals import NORMAL95
from tasks.leaderboard.leaderboard import leaderboard
from tasks.leaderboard.vote_plan import separations
from tasks.leaderboard.votes import rateable, votes
from tests.tasks.leaderboard.battle_tables import beats, drawn, games

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
