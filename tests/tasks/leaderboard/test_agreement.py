"""Agreement between boards, by numbers worked out by hand."""

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BadInput
from schemas.rating import Rating
from tasks.leaderboard.agreement import agreement


def board(**ratings: tuple[float, float]) -> list[Rating]:
    """model=(rating, half the width of its interval)."""
    return [
        Rating(slice="x", model=m, rating=r, ci95_low=r - h, ci95_high=r + h, rank=1, battles=1, flags=[])
        for m, (r, h) in ratings.items()
    ]


REFERENCE = board(a=(1300, 10), b=(1200, 10), c=(1100, 10), d=(1095, 10))


def test_a_board_agrees_with_itself():
    same = agreement(REFERENCE, REFERENCE)
    assert (same.spearman, same.kendall, same.pearson) == pytest.approx((1, 1, 1))
    assert (same.agreement, same.agreement_strict) == (1, 1)
    assert same.separability == same.separability_reference == pytest.approx(5 / 6)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=12))
def test_rank_correlations_are_those_of_scipy_also_with_ties(ratings):
    ours, theirs = ({f"m{n:02}": (float(pair[side]), 1.0) for n, pair in enumerate(ratings)} for side in (0, 1))
    found = agreement(board(**ours), board(**theirs))
    if any(len(set(each.values())) == 1 for each in (ours, theirs)):
        assert found.spearman is found.kendall is None
        return
    first, second = zip(*ratings, strict=True)
    assert found.kendall == pytest.approx(scipy.stats.kendalltau(first, second).statistic)
    assert found.spearman == pytest.approx(scipy.stats.spearmanr(first, second).statistic)


def test_a_reversed_board_disagrees():
    reverse = board(a=(1000, 1), b=(1100, 1), c=(1200, 1), d=(1210, 1))
    found = agreement(reverse, REFERENCE)
    assert found.spearman == pytest.approx(-1)
    assert (found.agreement, found.agreement_strict) == (0, -1)
    assert found.brier == pytest.approx(1, abs=1e-6)


def test_confidence_agreement_has_both_published_variants():
    # Of the five pairs the reference separates: a-b reversed, a-c, a-d, b-c, b-d right, but a-d and b-d overlap.
    mixed = board(a=(1200, 10), b=(1300, 10), c=(1100, 10), d=(1250, 80))
    found = agreement(mixed, REFERENCE)
    order = {"ab": 0, "ac": 1, "ad": 0.5, "bc": 1, "bd": 0.5}
    strict = {"ab": -1, "ac": 1, "ad": 0, "bc": 1, "bd": 0}
    assert found.agreement == pytest.approx(sum(order.values()) / 5)
    assert found.agreement_strict == pytest.approx(sum(strict.values()) / 5)
    assert found.separability == pytest.approx(4 / 6)


def test_brier_is_of_the_normal_probability_that_one_is_better():
    ten = 10 * 1.959964
    two = [board(a=(1010, ten), b=(1000, ten)), board(a=(1100, 5), b=(1000, 5))]
    chance = 0.7602499389  # of a standard normal below 10 / sqrt(10^2 + 10^2)
    assert agreement(*two).brier == pytest.approx((1 - chance) ** 2, abs=1e-7)


def test_only_models_on_both_boards_count():
    assert agreement(board(a=(1, 1), b=(2, 1), z=(9, 1)), REFERENCE).models == 2
    with pytest.raises(BadInput, match="share 1 models"):
        agreement(board(a=(1, 1), z=(2, 1)), REFERENCE)


def test_what_is_not_defined_is_null():
    flat = agreement(board(a=(1000, 0), b=(1000, 0)), board(a=(1000, 5), b=(1001, 5)))
    assert (flat.spearman, flat.agreement, flat.brier) == (None, None, None)
