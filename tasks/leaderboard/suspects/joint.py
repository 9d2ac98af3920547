"""Evidence about all models of a voter together: a voter who presses six models down leaves too little on each.

Each vote is forecast from the voter's earlier ones, once as an honest voter's, whose tastes vary by `TASTE`, and once
as a rigging one's, who is strongly for or against many models, or a few. The evidence is the product of the ratios
(Dawid, "Present position and potential developments: the prequential approach", 1984). A forecast knows nothing of the
vote, so chance alone makes the product exceed x about once in x voters. Rigging may begin at any vote: the evidence is
the mean of the products from each block of votes on.
"""

import itertools
from typing import NamedTuple, Self

import numpy as np
from scipy.special import logsumexp

from tasks.leaderboard.suspects.evidence import CARELESS, TASTE, VOTES_MIN, History, first_scores, voters_at_once
from tasks.leaderboard.votes import Mask, Matrix, Numbers, Vector

_GROWTH = 1.3
"""A forecast is made anew when a voter's votes have grown by so much; the first after `VOTES_MIN`."""
_MANY, _FEW = 1.5, 2.0
"""Standard deviation of a rigging voter's tastes, in log-odds: for all models, or for those of `_SUSPICION`."""
_SUSPICION = 1.5
"""Standard deviations from what honest tastes give, from which a model is one of a few that the voter may favour."""
_RIGGED = 3
"""Kinds of forecasts for a rigging voter: from all votes for many models or a few, and from the later half of them."""
_STEPS = 5
_SCORES = np.array([1.0, 0.5, 0.0])


class _Ballots(NamedTuple):
    """Votes of some voters; arrays are (rows,)."""

    first: Numbers
    """Number of the voter and the pair's first model, among all `cells` of a voter and a model."""
    second: Numbers
    score: Vector
    """Outcome for the first model: 1, 0.5 or 0."""
    chances: Matrix
    """float64 (3, rows): of a win of the first model, a tie, and a loss, by what all others voted."""
    cells: int

    def only(self, rows: Mask | Numbers) -> Self:
        return self._replace(
            first=self.first[rows], second=self.second[rows], score=self.score[rows], chances=self.chances[:, rows]
        )

    def renumbered(self) -> Self:
        """The same votes without cells that no vote is in."""
        met, cells = np.unique(np.concatenate([self.first, self.second]), return_inverse=True)
        return self._replace(first=cells[: len(self.first)], second=cells[len(self.first) :], cells=len(met))

    def log_chances(self, tastes: Vector) -> Vector:
        """Log-chance (rows,) of each vote of voters with these tastes (cells,), less that without any."""
        lead = tastes[self.first] - tastes[self.second]
        return np.asarray(lead * self.score - np.log((self.chances * np.exp(np.outer(_SCORES, lead))).sum(axis=0)))

    def slope(self, tastes: Vector) -> Matrix:
        """float64 (2, cells): gradient of the log-likelihood, and the diagonal of its curvature."""
        tilted = self.chances * np.exp(np.outer(_SCORES, tastes[self.first] - tastes[self.second]))
        tilted /= tilted.sum(axis=0)
        mean = _SCORES @ tilted
        surprise, spread = self.score - mean, _SCORES**2 @ tilted - mean**2
        of_first = [np.bincount(self.first, value, self.cells) for value in (surprise, spread)]
        of_second = [np.bincount(self.second, value, self.cells) for value in (-surprise, spread)]
        return np.add(of_first, of_second)

    def tastes(self, deviation: float, among: Mask | None = None) -> Vector:
        """The likeliest tastes (cells,), of those `among` which they may be, if they vary by `deviation`.

        Near enough: any tastes are a fair forecast of later votes.
        """
        tastes = np.zeros(self.cells)
        for _ in range(_STEPS):
            gradient, curvature = self.slope(tastes)
            step = (gradient - tastes / deviation**2) / (2 * curvature + 1 / deviation**2)
            tastes += step if among is None else step * among
        return tastes

    def suspicious(self) -> Mask:
        """Cells (cells,) whose votes honest tastes of `TASTE` hardly give."""
        gradient, curvature = self.slope(np.zeros(self.cells))
        return np.asarray(np.abs(gradient) > _SUSPICION * np.sqrt(curvature + (TASTE * curvature) ** 2))


def joint(history: History, tested: Numbers) -> Vector:
    """Values of p, float64 (tested,), of all votes of a voter on all models. `tested`: numbers of voters, sorted."""
    evidence = np.zeros(len(tested))
    for stretch in voters_at_once(len(tested)):
        evidence[stretch] = _evidence(history, tested[stretch])
    return np.asarray(np.exp(-np.maximum(evidence, 0.0)))


def _evidence(history: History, tested: Numbers) -> Vector:
    """Log-evidence (tested,) that a voter is no honest one: neither of any tastes, nor one who votes by habit."""
    cast, among = history.cast, np.flatnonzero(np.isin(history.voters, tested))
    voter, models = np.searchsorted(tested, history.voters[among]), len(cast.models)
    first, second = voter * models + cast.pairs[cast.pair[among]].T
    ballots = _Ballots(first, second, first_scores(cast)[among], history.chances[:, among], len(tested) * models)
    total, place = np.bincount(voter, minlength=len(tested)), _places(voter)
    most = int(total.max(initial=0))
    starts = _starts(most)
    of_taste, of_habit = np.zeros((2, _RIGGED, len(tested), len(starts)))
    for number, (start, end) in enumerate(itertools.pairwise([*starts, most])):
        # the votes so far of all voters who have more than `start`; those before `start` foretell the others
        rows = np.flatnonzero((total[voter] > start) & (place < end))
        block, order = ballots.only(rows).renumbered(), place[rows]
        past, coming = block.only(order < start), block.only(order >= start)
        recent = block.only((order < start) & (order >= start // 2))
        ahead = rows[order >= start]
        honest, by_habit = coming.log_chances(past.tastes(TASTE)), history.by_habit[among[ahead]]
        rigged = (past.tastes(_MANY), past.tastes(_FEW, past.suspicious()), recent.tastes(_MANY))
        for kind, tastes in enumerate(rigged):
            chances = coming.log_chances(tastes)
            of_taste[kind, :, number] = np.bincount(voter[ahead], chances - honest, len(tested))
            of_habit[kind, :, number] = np.bincount(voter[ahead], chances - by_habit, len(tested))
    blocks = np.maximum((total[:, None] > starts).sum(axis=1), 1)
    return np.asarray(np.minimum(_mean(of_taste, blocks), _mean(of_habit, blocks) - np.log(CARELESS)))


def _mean(evidence: Matrix, blocks: Numbers) -> Vector:
    """Log (tested,) of the mean evidence over kinds of rigging voters, and over the `blocks` in which it may begin.

    `evidence` (kinds, tested, blocks) is the log of what each block adds.
    """
    since = np.cumsum(evidence[:, :, ::-1], axis=2)[:, :, ::-1]
    begun = np.arange(since.shape[2]) < blocks[:, None]
    total = logsumexp(np.where(begun, since, -np.inf), axis=(0, 2))
    return np.asarray(total - np.log(_RIGGED * blocks))


def _starts(most: int) -> list[int]:
    """Numbers of votes after which forecasts are made anew, below `most`."""
    starts = [VOTES_MIN]
    while (following := max(starts[-1] + 1, int(starts[-1] * _GROWTH))) < most:
        starts.append(following)
    return starts


def _places(voter: Numbers) -> Numbers:
    """How many earlier rows (rows,) are of the same voter."""
    order = np.argsort(voter, kind="stable")
    ahead = np.cumsum(np.bincount(voter)) - np.bincount(voter)
    place = np.empty(len(voter), np.int64)
    place[order] = np.arange(len(voter)) - ahead[voter[order]]
    return place
