"""Boards of votes, judges, written items and right answers are shown in one way."""

from dataclasses import replace
from random import Random

import pytest

from schemas.benches.generated_results import AccuracyRow
from schemas.benches.judging import JudgeRating, SubmissionRating, WrittenRating
from schemas.board import BoardRow, Together, interval_text, shown_columns
from schemas.rating import LikeRating, Rating

BOARDS = (Rating, LikeRating, JudgeRating, WrittenRating, SubmissionRating, AccuracyRow)


def _row(kind: type[BoardRow], draw: Random, **values: object) -> BoardRow:
    """A row of a board with drawn numbers, and texts that name their column."""
    drawn = {
        name: ["few_votes"] if name == "flags"
        else name if field.annotation is str
        else draw.randint(1, 99) if field.annotation in (int, int | None)
        else round(draw.uniform(1, 99), 3)
        for name, field in kind.model_fields.items()
    }  # fmt: skip
    return kind(**{**drawn, "rank": 3, **values})


@pytest.mark.parametrize("kind", BOARDS)
def test_a_board_names_only_columns_of_its_rows(kind):
    of = kind.board
    together = [name for shown in of.more if isinstance(shown, Together) for name in shown.columns]
    alone = [shown for shown in of.more if isinstance(shown, str)]
    assert {of.value, of.low, of.high, *of.battles, *alone, *together} <= kind.model_fields.keys()


@pytest.mark.parametrize("kind", BOARDS)
def test_every_board_begins_with_rank_model_value_interval(kind):
    shown = shown_columns(_row(kind, Random(kind.__name__)))
    assert [*shown][:5] == ["slice", "rank", "model", kind.board.value, "95 % interval"]


@pytest.mark.parametrize("kind", BOARDS)
def test_every_board_ends_with_its_flags(kind):
    assert [*shown_columns(_row(kind, Random(kind.__name__)))][-1] == "flags"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(963.4, 1040.6, "963 to 1041"), (None, 950.0, "-∞ to 950"), (950.0, None, "950 to ∞"), (None, None, "-∞ to ∞")],
)
def test_a_rating_without_a_bound_goes_to_infinity(low, high, text):
    assert interval_text(low, high, Rating.board) == text


@pytest.mark.parametrize("board", [JudgeRating.board, AccuracyRow.board])
@pytest.mark.parametrize(("low", "high"), [(None, None), (None, 0.5), (0.5, None)])
def test_a_score_without_both_ends_has_no_interval(board, low, high):
    assert interval_text(low, high, board) == "-"


def test_the_ends_have_the_decimals_that_their_board_says():
    assert interval_text(1.26, 2.0, replace(Rating.board, digits=1)) == "1.3 to 2.0"


def test_counts_of_verdicts_stand_in_one_column():
    counts = {"much_better": 1, "better": 2, "tie": 3, "worse": 4, "much_worse": 5}
    shown = shown_columns(_row(JudgeRating, Random(0), **counts))
    assert shown[">> / > / = / < / <<"] == "1 / 2 / 3 / 4 / 5"
