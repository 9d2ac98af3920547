"""Chances of each vote by all others' votes, and how much more likely it is if the voter favours a side."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from tasks.leaderboard.bradley_terry import SCALE, laplacian, log_strengths
from tasks.leaderboard.votes import Mask, Matrix, Numbers, Vector, Votes

TASTE = 0.5
"""Log-odds by which an honest voter may favour a model: odds of 1.6, or 87 rating points."""
TILTS = (1.5, 3.0)
"""Log-odds by which a rigging voter favours the side: odds of 4.5 and 20; the evidence is the mean of both."""
CARELESS = 0.05
"""At most this share of voters votes without looking: left, right and tie as often as they do, whatever the models."""
_HABIT = 2.0
"""Votes, as all voters cast them, that are added to a voter's own before the habit is counted."""
_PRIOR = 0.1
"""Games, half of them won, that are added to every pair that met: every model then has a finite rating."""
_AT_ONCE = 4_096


def voters_at_once(count: int) -> Iterator[slice]:
    """Stretches of voters for whom numbers by model are in memory at a time."""
    return (slice(start, start + _AT_ONCE) for start in range(0, count, _AT_ONCE))


class History(NamedTuple):
    """Votes beside the history without their voter."""

    cast: Votes
    voters: Numbers
    """int64 (rows,): number of the voter; -1 where none is named."""
    reach: Matrix
    """float64 (pairs, models): change of a model's log-strength for a score of one more by the pair's first model."""
    surprise: csr_array
    """float64 (voters, pairs): score of a voter's votes for the pair's first model, beyond what was to be expected."""
    chances: Matrix
    """float64 (3, rows): of a win of the pair's first model, a tie, and a loss, by the history without the voter."""
    gains: Matrix
    """float64 (tilts, 2, 2, rows): log-likelihood ratio of the vote if its voter favours the pair's first, or second,
    model by a tilt; against a voter with a taste of `TASTE` for it, and against one who votes by habit."""

    def pull(self, voter: int, model: int) -> float:
        """Rating points by which a voter's votes move a model, to first order."""
        return float(SCALE * (self.surprise[[voter]] @ self.reach)[0, model])


def history(cast: Votes, voters: Numbers, doubted: Mask) -> History:
    """The history of votes; `doubted` (voters,) are left out of it, and every voter from what is said of his votes.

    A voter is left out by one Newton step from the fit of all trusted votes. Ties have a chance in proportion to
    p (1 - p), with the share that they have among the trusted votes.
    """
    first, second = cast.pairs[cast.pair].T
    trusted = (voters < 0) | ~doubted[voters]
    wins, games = (
        sums + prior for sums, prior in zip(cast.sums(trusted.astype(np.float64)), (_PRIOR / 2, _PRIOR), strict=True)
    )
    strengths = np.nan_to_num(log_strengths(cast.pairs, wins, games, len(cast.models)))
    chance = expit(strengths[cast.pairs[:, 0]] - strengths[cast.pairs[:, 1]])
    covariance = np.linalg.pinv(laplacian(cast.pairs, games * chance * (1 - chance), len(strengths)), hermitian=True)
    reach = covariance[cast.pairs[:, 0]] - covariance[cast.pairs[:, 1]]
    named = voters >= 0
    surprise = cast.weight * (cast.score - chance[cast.pair])
    shape = (len(doubted), len(cast.pairs))
    of_voters = csr_array((surprise[named], (voters[named], cast.pair[named])), shape=shape)
    own = np.zeros(len(voters))
    for some in voters_at_once(len(doubted)):
        moved, votes = of_voters[some] @ reach, trusted & (voters >= some.start) & (voters < some.stop)
        of = voters[votes] - some.start
        own[votes] = moved[of, first[votes]] - moved[of, second[votes]]
    won = expit(strengths[first] - strengths[second] - own)
    chances = _with_ties(won, float((cast.score == 0.5)[trusted].mean() if trusted.any() else 0.0))
    return History(cast, voters, reach, of_voters, chances, _gains(chances, cast, habits(cast, voters)))


def _with_ties(won: Vector, tie_share: float) -> Matrix:
    """Chances of win, tie and loss whose mean score is `won`."""
    spread = 4 * won * (1 - won)
    tie = np.minimum(spread * tie_share / max(float(spread.mean()), 1e-9), 1.9 * np.minimum(won, 1 - won))
    return np.stack([won - tie / 2, tie, 1 - won - tie / 2])


def habits(cast: Votes, voters: Numbers) -> Vector:
    """Log-chance float64 (rows,) of each vote by how often its voter votes left, right and tie, and nothing else."""
    choice = np.where(cast.score == 0.5, 2, (cast.score > 0.5) ^ cast.swapped).astype(np.int64)
    of_all = np.bincount(choice, minlength=3) / max(1, len(choice))
    own = np.bincount(3 * (voters + 1) + choice, minlength=3 * (voters.max(initial=-1) + 2)).reshape(-1, 3)
    shares = (own + _HABIT * of_all) / (own.sum(axis=1, keepdims=True) + _HABIT)
    return np.asarray(np.log(shares[voters + 1, choice]))


def _gains(chances: Matrix, cast: Votes, habit: Vector) -> Matrix:
    """`History.gains`: a tilt t multiplies the chance of a score s by exp(t s), up to a common factor.

    The ratio of two tilts has an expectation of at most 1 for every smaller taste, for or against: products over votes
    are therefore bounded by Ville's inequality, at whatever vote one looks.
    """
    outcome = np.where(cast.score == 0.5, 0.5, cast.score > 0.5)
    plain = np.log(np.where(outcome == 0.5, chances[1], np.where(outcome == 1, chances[0], chances[2])).clip(1e-12))
    gains = np.empty((len(TILTS), 2, 2, len(outcome)))
    for number, tilt in enumerate(TILTS):
        for side, (of, told) in enumerate(((chances, outcome), (chances[::-1], 1 - outcome))):
            tilted = tilt * told - np.log(_total(of, tilt))
            gains[number, side] = tilted - TASTE * told + np.log(_total(of, TASTE)), plain + tilted - habit
    return gains


def _total(chances: Matrix, tilt: float) -> Vector:
    return np.asarray(np.exp([tilt, tilt / 2, 0.0]) @ chances)
