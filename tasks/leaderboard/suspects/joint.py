"""Evidence about all models of a voter together: a voter who presses six models down leaves too little on each.

In: the votes of all voters (`History`), and numbers of the voters to test. Out: one p value a voter.

Each vote is forecast from the voter's earlier ones, once as an honest voter's, whose tastes vary by `TASTE`, and once
as a rigging one's, who is strongly for or against many models, or a few. The evidence is the product of the ratios
(Dawid, "Present position and potential developments: the prequential approach", 1984). A forecast knows nothing of the
vote, so chance alone makes the product exceed x about once in x voters. Rigging may begin at any vote: the evidence is
the mean of the products from each block of votes on. A further way to rig is one more vector of `rigging_tastes`,
counted in `_RIGGING_KINDS`.
"""

import itertools
from typing import NamedTuple, Self

import numpy as np
from scipy.special import logsumexp

from tasks.leaderboard.suspects.evidence import (
    CARELESS_SHARE_MAX,
    TASTE,
    VOTER_VOTES_MIN,
    History,
    first_scores,
    voters_at_once,
)
from tasks.leaderboard.votes import Mask, Matrix, Numbers, Vector

_GROWTH = 1.3
"""A forecast is made anew when a voter's votes have grown by so much; the first after `VOTER_VOTES_MIN`."""
_MANY, _FEW = 1.5, 2.0
"""Standard deviation of a rigging voter's tastes, in log-odds: for all models, or for those of `_SUSPICION`."""
_SUSPICION = 1.5
"""Standard deviations from what honest tastes give, from which a model is one of a few that the voter may favour."""
_RIGGING_KINDS = 3
"""Forecasts for a rigging voter: from all earlier votes for many models, for a few, and from the later half of them."""
_NEWTON_STEPS = 5
_SCORES = np.array([1.0, 0.5, 0.0])
"""Scores of the first model for a win, a tie and a loss, in the order of `_Ballots.chances`."""


class _Ballots(NamedTuple):
    """Votes of some voters; arrays are (votes,). A cell is a voter and a model: the voter has a taste for it."""

    first: Numbers
    """int64: number of the cell of the voter and the pair's first model, below `cells`."""
    second: Numbers
    """int64: number of the cell of the voter and the second model."""
    score: Vector
    """float64: outcome for the first model: 1, 0.5 or 0."""
    chances: Matrix
    """float64 (3, votes): of a win of the first model, a tie, and a loss, by what all others voted."""
    cells: int
    """Number of cells."""

    def only(self, votes: Mask | Numbers) -> Self:
        """Some of the votes, with all cells."""
        return self._replace(
            first=self.first[votes], second=self.second[votes], score=self.score[votes], chances=self.chances[:, votes]
        )

    def renumbered(self) -> Self:
        """The same votes without cells that no vote is in."""
        numbers = np.concatenate([self.first, self.second])
        used_numbers, new_numbers = np.unique(numbers, return_inverse=True)
        votes = len(self.first)
        return self._replace(first=new_numbers[:votes], second=new_numbers[votes:], cells=len(used_numbers))

    def log_chances(self, tastes: Vector) -> Vector:
        """Log-chance (votes,) of each vote of voters with these tastes (cells,) in log-odds, less that without any."""
        lead = tastes[self.first] - tastes[self.second]
        normalizer = (self.chances * np.exp(np.outer(_SCORES, lead))).sum(axis=0)
        return np.asarray(lead * self.score - np.log(normalizer))

    def slope(self, tastes: Vector) -> Matrix:
        """float64 (2, cells): gradient of the log-likelihood, and the diagonal of its negated curvature."""
        lead = tastes[self.first] - tastes[self.second]
        tilted_chances = self.chances * np.exp(np.outer(_SCORES, lead))
        tilted_chances /= tilted_chances.sum(axis=0)
        mean_score = _SCORES @ tilted_chances
        surprise = self.score - mean_score
        variance = _SCORES**2 @ tilted_chances - mean_score**2
        # A vote pulls its first model by the surprise, and its second one the other way.
        gradient = np.bincount(self.first, surprise, self.cells) + np.bincount(self.second, -surprise, self.cells)
        curvature = np.bincount(self.first, variance, self.cells) + np.bincount(self.second, variance, self.cells)
        return np.array([gradient, curvature])

    def tastes(self, deviation: float, among: Mask | None = None) -> Vector:
        """The likeliest tastes float64 (cells,) in log-odds, if they vary by `deviation`; 0 but in the cells `among`.

        Near enough: a forecast from any tastes is fair, because it is made before the votes that it is compared with.
        """
        tastes = np.zeros(self.cells)
        for _ in range(_NEWTON_STEPS):
            gradient, curvature = self.slope(tastes)
            # Twice the diagonal is at least the whole curvature, as a vote is in two cells: no step goes too far.
            step = (gradient - tastes / deviation**2) / (2 * curvature + 1 / deviation**2)
            if among is not None:
                step = step * among
            tastes += step
        return tastes

    def suspicious(self) -> Mask:
        """Bool (cells,): whether honest tastes, which vary by `TASTE`, hardly give the votes of a cell."""
        gradient, curvature = self.slope(np.zeros(self.cells))
        # Chance of the votes, and that of the taste.
        variance = curvature + (TASTE * curvature) ** 2
        return np.asarray(np.abs(gradient) > _SUSPICION * np.sqrt(variance))


def joint(history: History, tested: Numbers) -> Vector:
    """Values of p, float64 (tested,), of all votes of a voter on all models. `tested`: numbers of voters, ascending."""
    evidence = np.zeros(len(tested))
    for stretch in voters_at_once(len(tested)):
        evidence[stretch] = _evidence(history, tested[stretch])
    return np.asarray(np.exp(-np.maximum(evidence, 0.0)))


def _evidence(history: History, tested: Numbers) -> Vector:
    """Log-evidence (tested,) that a voter is no honest one: neither of any tastes, nor one who votes by habit."""
    cast = history.cast
    model_count, tested_count = len(cast.models), len(tested)
    # The votes of the tested voters, by their numbers in `history`; `voter` is the voter's number in `tested`.
    vote_numbers = np.flatnonzero(np.isin(history.voters, tested))
    voter = np.searchsorted(tested, history.voters[vote_numbers])
    first_model, second_model = cast.pairs[cast.pair[vote_numbers]].T
    ballots = _Ballots(
        first=voter * model_count + first_model,
        second=voter * model_count + second_model,
        score=first_scores(cast)[vote_numbers],
        chances=history.chances[:, vote_numbers],
        cells=tested_count * model_count,
    )
    by_habit = history.by_habit[vote_numbers]
    votes_of_voter = np.bincount(voter, minlength=tested_count)
    earlier_votes = _earlier_votes(voter)
    votes_max = int(votes_of_voter.max(initial=0))
    # A block is the votes of each voter from one start to the next; all of them are forecast by the votes before it.
    starts = _block_starts(votes_max)
    against_taste, against_habit = np.zeros((2, _RIGGING_KINDS, tested_count, len(starts)))
    for block, (start, end) in enumerate(itertools.pairwise([*starts, votes_max])):
        # Votes of the block and before it, of the voters who have any in it.
        votes = np.flatnonzero((votes_of_voter[voter] > start) & (earlier_votes < end))
        until_end = ballots.only(votes).renumbered()
        order = earlier_votes[votes]
        past = until_end.only(order < start)
        recent = until_end.only((order < start) & (order >= start // 2))
        forecast = until_end.only(order >= start)
        forecast_votes = votes[order >= start]
        honest_log_chances = forecast.log_chances(past.tastes(TASTE))
        rigging_tastes = (past.tastes(_MANY), past.tastes(_FEW, past.suspicious()), recent.tastes(_MANY))
        for kind, tastes in enumerate(rigging_tastes):
            log_chances = forecast.log_chances(tastes)
            log_ratios_taste = log_chances - honest_log_chances
            log_ratios_habit = log_chances - by_habit[forecast_votes]
            against_taste[kind, :, block] = np.bincount(voter[forecast_votes], log_ratios_taste, tested_count)
            against_habit[kind, :, block] = np.bincount(voter[forecast_votes], log_ratios_habit, tested_count)
    blocks_of_voter = np.maximum((votes_of_voter[:, None] > starts).sum(axis=1), 1)
    evidence_against_taste = _log_mean(against_taste, blocks_of_voter)
    evidence_against_habit = _log_mean(against_habit, blocks_of_voter) - np.log(CARELESS_SHARE_MAX)
    # The voter may be honest in either way, so the weaker evidence counts.
    return np.asarray(np.minimum(evidence_against_taste, evidence_against_habit))


def _log_mean(log_ratios: Matrix, blocks_of_voter: Numbers) -> Vector:
    """Log (tested,) of the mean evidence over kinds of rigging, and over the voter's blocks in which it may begin.

    `log_ratios` float64 (kinds, tested, blocks) is what each block adds; `blocks_of_voter` int64 (tested,).
    """
    # What all blocks from each one on add together.
    log_evidence = np.cumsum(log_ratios[:, :, ::-1], axis=2)[:, :, ::-1]
    has_block = np.arange(log_evidence.shape[2]) < blocks_of_voter[:, None]
    log_total = logsumexp(np.where(has_block, log_evidence, -np.inf), axis=(0, 2))
    return np.asarray(log_total - np.log(_RIGGING_KINDS * blocks_of_voter))


def _block_starts(votes_max: int) -> list[int]:
    """Numbers of votes after which forecasts are made anew: `VOTER_VOTES_MIN`, and more below `votes_max`."""
    starts = [VOTER_VOTES_MIN]
    while True:
        following = max(starts[-1] + 1, int(starts[-1] * _GROWTH))
        if following >= votes_max:
            return starts
        starts.append(following)


def _earlier_votes(voter: Numbers) -> Numbers:
    """int64 (votes,): how many earlier votes are of the same voter."""
    by_voter = np.argsort(voter, kind="stable")
    votes_of_voter = np.bincount(voter)
    # In the order by voter, the position of each voter's first vote.
    first_position = np.cumsum(votes_of_voter) - votes_of_voter
    earlier = np.empty(len(voter), np.int64)
    earlier[by_voter] = np.arange(len(voter)) - first_position[voter[by_voter]]
    return earlier
