"""The board of a written benchmark: expected scores, the order of Elo, ties, coverage, families."""

from datetime import UTC, datetime

import polars as pl
import pytest

from schemas.errors import CurateError
from schemas.rating import RatingMethod
from tasks.judging.boards.submission_boards import submission_board
from tasks.judging.visit_battles import one_answer_version, visit_battles
from tasks.leaderboard.records import expected_score

NOW = datetime(2024, 9, 18, tzinfo=UTC)
FAMILIES = {f"i{n}": ("counting", "humor")[n % 2] for n in range(6)}


def _verdicts(*said):
    """Rows of (item, first, second, label), with both orders where the label has two."""
    rows = []
    for item, one, other, labels in said:
        for (first, second), label in zip(((one, other), (other, one)), labels, strict=False):
            rows.append((item, first, second, f"{first}+1", f"{second}+1", label))
    frame = pl.DataFrame(
        rows, schema=["question_id", "model_a", "model_b", "answer_a", "answer_b", "label"], orient="row"
    )
    about = {"shown": pl.col("question_id"), "judge": pl.lit("j"), "judge_version": pl.lit("j+1")}
    return frame.with_columns(**about, protocol=pl.lit("visit"))


X_WINS, Y_WINS, FLIPPED, NONE = ("A>B", "B>A"), ("B>A", "A>B"), ("A>B", "A>B"), (None, None)
SAID = [
    ("i0", "x", "y", X_WINS), ("i1", "x", "y", X_WINS), ("i2", "x", "y", FLIPPED), ("i3", "y", "x", X_WINS),
    ("i0", "x", "reference", Y_WINS), ("i1", "x", "reference", X_WINS), ("i2", "x", "reference", NONE),
    ("i0", "y", "reference", Y_WINS), ("i1", "y", "reference", ("A>B",)), ("i2", "reference", "y", Y_WINS),
]  # fmt: skip


def test_the_published_ratings_expect_the_win_rate_of_the_paper():
    assert round(expected_score(1223, 1085), 2) == 0.69  # not 0.31, as its formula with the sign reversed gives
    assert round(expected_score(1223, 786), 3) == 0.925


def test_ties_flips_unfinished_battles_coverage_and_win_rates_are_counted_for_every_family():
    board = submission_board(_verdicts(*SAID), FAMILIES, "b", RatingMethod(), False, NOW)
    rows = {(row.slice, row.model): row for row in board}
    assert {name for name, _ in rows} == {"overall", "family:counting", "family:humor"}
    x = rows["overall", "x"]
    assert (x.matches, x.ties, x.coverage, x.made_at) == (7, 2, 4 / 6, "2024-09-18T00:00:00Z")
    assert (x.wins_vs_reference, x.decisive_vs_reference, x.battles_vs_reference) == (1, 2, 3)
    assert x.win_rate_vs_reference == 0.5
    assert x.expected_vs_reference == pytest.approx(expected_score(x.rating, rows["overall", "reference"].rating))
    assert rows["overall", "y"].battles_vs_reference == 2  # one order of i1 is missing
    assert rows["family:humor", "x"].matches == 3
    assert rows["overall", "reference"].win_rate_vs_reference is None
    battles = visit_battles(_verdicts(*SAID))
    assert battles.filter("flipped")["question_id"].to_list() == ["i2"]
    assert battles.filter(pl.col("no_verdict") == 2)["winner"].to_list() == ["tie"]


def test_sequential_elo_depends_on_its_order_and_bradley_terry_does_not():
    said = _verdicts(*SAID)
    given, one, other = (
        {row.model: row for row in submission_board(said, FAMILIES, "b", RatingMethod(seed=seed), shuffled, NOW)}
        for seed, shuffled in ((0, False), (1, True), (2, True))
    )
    assert len({round(board["x"].elo, 6) for board in (given, one, other)}) > 1
    assert given["x"].rating == one["x"].rating == other["x"].rating


def test_two_versions_of_a_models_answers_do_not_mix():
    said = _verdicts(*SAID)
    mixed = pl.concat([said, said.with_columns(answer_a=pl.lit("another"))])
    with pytest.raises(CurateError, match="two versions of the answers of"):
        one_answer_version(mixed)
