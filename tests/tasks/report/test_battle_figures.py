"""Figures of battles that a report leaves out: whose answers decline, and mean win rates over opponents."""

import polars as pl
import pytest

from tasks.report.battle_figures import REFUSED_BY_VALUES, RefusedBattles, mean_win_rates
from tasks.report.figures import bars
from tasks.report.page import Part


def test_battles_are_counted_by_whose_answers_decline():
    refused = RefusedBattles()
    refused.add("battle", pl.DataFrame({"refused_by": ["both", "neither", None, "neither"]}))
    refused.add("battle", pl.DataFrame({"refused_by": ["model_a"]}))
    refused.add("chat", pl.DataFrame({"refused_by": ["model_b"]}))
    (part,) = refused.parts()
    assert part.table.rows() == [("model_a", 1, 0.25), ("model_b", 0, 0.0), ("both", 1, 0.25), ("neither", 2, 0.5)]
    assert all(side in part.figure.svg for side in REFUSED_BY_VALUES)


def test_battles_of_which_nothing_is_known_make_no_figure():
    refused = RefusedBattles()
    refused.add("battle", pl.DataFrame({"refused_by": [None]}, schema={"refused_by": pl.String}))
    assert refused.parts() == []


@pytest.mark.parametrize("key", ["win_rates", "battle_counts"])
def test_a_mean_win_rate_weighs_opponents_alike_and_leaves_ties_out(key):
    pairs = pl.DataFrame(
        {
            "model": ["a", "a", "b", "b", "c"],
            "opponent": ["b", "c", "a", "c", "b"],
            "battles": [10, 4, 10, 3, 3],
            "won": [8, 0, 0, 0, 0],
            "lost": [0, 2, 8, 0, 0],
        }
    )
    parts = mean_win_rates([Part(key, "", "", pairs, bars({"a": 1.0}, "x"))])
    expected = [("a", 2, 0.5), ("b", 1, 0.0)]  # b and c only tied
    assert [part.table.rows() for part in parts] == ([expected] if key == "win_rates" else [])
