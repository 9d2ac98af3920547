"""Evidence that voters pull a model: tests of one voter's votes, and of what several voters share.

Each vote has its chances by all others' votes, and how much more likely it is if the voter favours a side.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy.sparse import csr_array
from scipy.special import expit, logsumexp

from tasks.leaderboard.bradley_terry import SCALE, laplacian, log_strengths
from tasks.leaderboard.votes import Mask, Matrix, Numbers, Vector, Votes

TASTE = 0.5
"""Log-odds by which an honest voter may favour a model: odds of 1.6, or 87 rating points."""
TILTS = (1.5, 3.0)
"""Log-odds by which a rigging voter favours the side: odds of 4.5 and 20; the evidence is the mean of both."""
CARELESS_SHARE_MAX = 0.05
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
    by_habit: Vector
    """float64 (rows,): log-chance of the vote if its voter votes by habit, less that by the history."""

    def pulls(self, voter: int) -> Vector:
        """Rating points (models,) by which a voter's votes move each model, to first order."""
        return np.asarray(SCALE * (self.surprise[[voter]] @ self.reach)[0])


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
    has_voter = voters >= 0
    surprise = cast.weight * (cast.score - chance[cast.pair])
    shape = (len(doubted), len(cast.pairs))
    voter_surprise = csr_array((surprise[has_voter], (voters[has_voter], cast.pair[has_voter])), shape=shape)
    own_pull = np.zeros(len(voters))
    for stretch in voters_at_once(len(doubted)):
        moved, votes = voter_surprise[stretch] @ reach, trusted & (voters >= stretch.start) & (voters < stretch.stop)
        places = voters[votes] - stretch.start
        own_pull[votes] = moved[places, first[votes]] - moved[places, second[votes]]
    won = expit(strengths[first] - strengths[second] - own_pull)
    chances = _with_ties(won, float((cast.score == 0.5)[trusted].mean() if trusted.any() else 0.0))
    by_habit = habits(cast, voters) - _log_chances(chances, cast)
    return History(cast, voters, reach, voter_surprise, chances, _gains(chances, cast, by_habit), by_habit)


def _with_ties(won: Vector, tie_share: float) -> Matrix:
    """Chances of win, tie and loss whose mean score is `won`."""
    spread = 4 * won * (1 - won)
    tie = np.minimum(spread * tie_share / max(float(spread.mean()), 1e-9), 1.9 * np.minimum(won, 1 - won))
    return np.stack([won - tie / 2, tie, 1 - won - tie / 2])


def habits(cast: Votes, voters: Numbers) -> Vector:
    """Log-chance float64 (rows,) of each vote by how often its voter votes left, right and tie, and nothing else."""
    choice = np.where(cast.score == 0.5, 2, (cast.score > 0.5) ^ cast.swapped).astype(np.int64)
    of_all = np.bincount(choice, minlength=3) / max(1, len(choice))
    choices = np.bincount(3 * (voters + 1) + choice, minlength=3 * (voters.max(initial=-1) + 2)).reshape(-1, 3)
    shares = (choices + _HABIT * of_all) / (choices.sum(axis=1, keepdims=True) + _HABIT)
    return np.asarray(np.log(shares[voters + 1, choice]))


def first_scores(cast: Votes) -> Vector:
    """Outcomes float64 (rows,) for the first model of the pair, 1, 0.5 or 0; a soft preference is a win or a loss."""
    return np.where(cast.score == 0.5, 0.5, cast.score > 0.5)


def _log_chances(chances: Matrix, cast: Votes) -> Vector:
    """Log-chance float64 (rows,) of each vote by the history."""
    outcome = first_scores(cast)
    chance = np.where(outcome == 0.5, chances[1], np.where(outcome == 1, chances[0], chances[2]))
    return np.asarray(np.log(chance.clip(1e-12)))


def _gains(chances: Matrix, cast: Votes, by_habit: Vector) -> Matrix:
    """`History.gains`: a tilt t multiplies the chance of a score s by exp(t s), up to a common factor.

    The ratio of two tilts has an expectation of at most 1 for every smaller taste, for or against: products over votes
    are therefore bounded by Ville's inequality, at whatever vote one looks.
    """
    outcome = first_scores(cast)
    gains = np.empty((len(TILTS), 2, 2, len(outcome)))
    for number, tilt in enumerate(TILTS):
        for side, (side_chances, side_scores) in enumerate(((chances, outcome), (chances[::-1], 1 - outcome))):
            tilted = tilt * side_scores - np.log(_total(side_chances, tilt))
            gains[number, side] = tilted - TASTE * side_scores + np.log(_total(side_chances, TASTE)), tilted - by_habit
    return gains


def _total(chances: Matrix, tilt: float) -> Vector:
    return np.asarray(np.exp([tilt, tilt / 2, 0.0]) @ chances)


VOTER_VOTES_MIN = 5
"""Voters with fewer votes are tested in groups only."""
_NULLS, _TILTED = {"taste": 0.0, "habit": -np.log(CARELESS_SHARE_MAX)}, range(len(TILTS))
"""Kind of honest voter, in the order of an axis of `History.gains` -> what is added to the evidence against a suspect
whose votes such a voter would explain, because such voters are rare."""
_GAINS = [f"{null}_{number}" for null in _NULLS for number in _TILTED]
"""Columns of `sided`."""


def _mean_evidence(sums: Sequence[pl.Expr]) -> pl.Expr:
    """Log of the mean of exp(sums)."""
    level = pl.max_horizontal(sums)
    return level + pl.mean_horizontal([(total - level).exp() for total in sums]).log()


def sided(history: History) -> pl.DataFrame:
    """Two rows a vote of a named voter, one for each side, in order of the votes.

    Columns: row (of the votes), voter, model (number), won (score of the side), chance (of its win), and for each of
    the `TILTS` taste_N and habit_N, the gains for the side.
    """
    cast, rows_with_voter = history.cast, np.flatnonzero(history.voters >= 0)
    outcome = first_scores(cast)
    # a frame is one side of all votes with a voter: the first model of the pair, then the second
    sides = [
        pl.DataFrame(
            {
                "row": rows_with_voter,
                "voter": history.voters[rows_with_voter],
                "model": cast.pairs[cast.pair[rows_with_voter], side],
                "won": (1 - outcome if side else outcome)[rows_with_voter],
                "chance": history.chances[2 * side][rows_with_voter],
                **{
                    f"{null}_{n}": history.gains[n, side, k][rows_with_voter]
                    for k, null in enumerate(_NULLS)
                    for n in _TILTED
                },
            }
        )
        for side in (0, 1)
    ]
    return pl.concat(sides).sort("row", maintain_order=True)


def sequential(sides: pl.DataFrame, models: int) -> pl.DataFrame:
    """Each voter's evidence on each model that he met, vote by vote: columns voter, model, p.

    p bounds the chance that the evidence is ever as large, at any vote, for any of `models` (Ville 1939; Bonferroni).
    """
    running = {name: pl.col(name).cum_sum().over("voter", "model") for name in _GAINS}
    least = pl.min_horizontal(
        [_mean_evidence([pl.col(f"{null}_{n}") for n in _TILTED]) + more for null, more in _NULLS.items()]
    )
    summed = sides.select("voter", "model", **running).select("voter", "model", evidence=least)
    top = summed.group_by("voter", "model").agg(pl.col("evidence").max())
    return top.select("voter", "model", p=(models * (-pl.col("evidence")).exp()).clip(upper_bound=1.0))


def omnipresent(history: History, tested: Numbers) -> Matrix:
    """Values of p, float64 (tested, models), of all votes of a voter, if each is for the side that moves a model up.

    `tested`: numbers of voters, sorted.
    """
    cast, is_tested = history.cast, np.isin(history.voters, tested)
    toward, place = np.sign(history.reach), (np.searchsorted(tested, history.voters[is_tested]), cast.pair[is_tested])
    # for each tilt and kind of honest voter two matrices (tested, pairs), sums over a voter's votes on a pair: the mean
    # of the gains for both sides, and half of what that for the first side is above that for the second
    pair_gains = [
        [csr_array((gain, place), (len(tested), len(cast.pairs))) for gain in ((up + down) / 2, (up - down) / 2)]
        for up, down in history.gains.swapaxes(1, 2).reshape(-1, 2, len(cast.pair))[..., is_tested]
    ]
    rare = np.array([*_NULLS.values()])[:, None, None]
    p = np.empty((len(tested), len(cast.models)))
    for stretch in voters_at_once(len(tested)):
        evidence = np.stack([either[stretch] @ np.abs(toward) + more[stretch] @ toward for either, more in pair_gains])
        evidence = evidence.reshape(len(TILTS), len(_NULLS), *p[stretch].shape)
        mean = (logsumexp(evidence, axis=0) - np.log(len(TILTS)) + rare).min(axis=0)
        p[stretch] = np.minimum(1.0, len(cast.models) * np.exp(-mean))
    return p


def focused(sides: pl.DataFrame, models: int) -> pl.DataFrame:
    """How much a voter's votes are on one model, which the arena draws: columns voter, model, p.

    p is that of as many of his votes on the model, given its share of all votes, corrected for `models`: who votes only
    where he sees his model has more.
    """
    from scipy.stats import binom  # slow to load

    share = pl.col("own").sum().over("model") / pl.col("own").sum() * 2
    # a row is one voter and one model that he had in a battle
    counted = sides.group_by("voter", "model").agg(own=pl.len())
    counted = counted.with_columns(votes=pl.col("own").sum().over("voter") // 2, share=share)
    on_model, votes, shares = (counted[name].to_numpy() for name in ("own", "votes", "share"))
    p = np.minimum(1.0, models * binom.sf(on_model - 1, votes, np.minimum(1.0, shares)))
    return counted.select("voter", "model", p=pl.Series(p))


def shared(sides: pl.DataFrame, keys: pl.Series, models: int, rigged_min: float) -> pl.DataFrame:
    """Groups of voters whose votes have a key in common and pull one model: columns key, model, p, voter.

    `keys` (votes): what they may share; null for nothing. p is that of all votes on the model within a key, corrected
    for all keys and models (Bonferroni). One row for each member: a voter who voted for the model within the key, and
    is rigging with a probability of `rigged_min`. That is by Bayes' rule from these votes, and from the share of the
    key's votes that is rigged if rigged ones are all for the model and others follow the history.
    """
    # a row is one side of a vote that has a key
    of_key = sides.with_columns(key=keys.gather(sides["row"])).drop_nulls("key")
    total = of_key["key"].n_unique() * models
    evidence = _mean_evidence([pl.col(f"taste_{n}").sum() for n in _TILTED])
    wins, chance = (pl.col("won") == 1).mean(), pl.col("chance").mean()
    # that all of n voters are rigging is not known better than to a half of one in n + 1 (Jeffreys 1946)
    most = 1 - 0.5 / (pl.col("voter").n_unique() + 1)
    # A row is one key and one model, on which several voters have enough votes together.
    groups = (
        of_key.group_by("key", "model")
        .agg(
            evidence=evidence,
            voters=pl.col("voter").n_unique(),
            votes=pl.len(),
            rigged=((wins - chance) / (1 - chance)).clip(0, most),
        )
        .filter((pl.col("voters") > 1) & (pl.col("votes") >= VOTER_VOTES_MIN))
        .select("key", "model", "rigged", p=(total * (-pl.col("evidence")).exp()).clip(upper_bound=1.0))
    )
    # a row is one voter within one key and model, who gave the model at least one win
    member_evidence = (
        of_key.group_by("key", "model", "voter").agg(own=evidence, won=(pl.col("won") == 1).any()).filter("won")
    )
    odds = pl.col("own").exp() * pl.col("rigged") / (1 - pl.col("rigged"))
    members = groups.join(member_evidence, on=["key", "model"]).filter(odds >= rigged_min / (1 - rigged_min))
    return members.select("key", "model", "p", "voter").sort("p", "key", "model", "voter")


def more_often(marked: Mask, can_be_told: Mask, voters: Numbers, count: int, trusted: Mask) -> Vector:
    """Values of p, float64 (voters,), of as many marked votes, at the rate of all other trusted voters; 1 without any.

    `marked` and `can_be_told` are (rows,): whether the vote has the mark, and whether that can be told.
    """
    from scipy.stats import binom  # slow to load

    is_countable = can_be_told & (voters >= 0)
    # a number is one voter's: his marked votes, and all of his votes that could have the mark
    marked_votes, total = (np.bincount(voters[rows], minlength=count) for rows in (is_countable & marked, is_countable))
    by_trusted = trusted[voters] & is_countable
    trusted_marked, trusted_total = (
        np.bincount(voters[rows], minlength=count).sum() for rows in (by_trusted & marked, by_trusted)
    )
    is_trusted = np.where(trusted, 1, 0)
    rate = (trusted_marked - is_trusted * marked_votes + 0.5) / (trusted_total - is_trusted * total + 1)
    return np.asarray(np.where(marked_votes > 0, binom.sf(marked_votes - 1, total, np.clip(rate, 1e-3, 1.0)), 1.0))


def fisher(p_values: Sequence[Vector]) -> Vector:
    """One p-value of independent ones (Fisher 1932)."""
    from scipy.stats import chi2  # slow to load

    statistic = -2 * np.sum([np.log(np.maximum(p, 1e-300)) for p in p_values], axis=0)
    return np.asarray(chi2.sf(statistic, 2 * len(p_values)))


def holm(p_values: Vector) -> Vector:
    """p-values corrected for their number, so that one true hypothesis among all falls with at most that chance."""
    order = np.argsort(p_values, kind="stable")
    stepped = np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1))
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(1.0, stepped)
    return corrected
