"""A board's fit as a function of the votes that are removed or reversed, and the influence of each vote on it.

The maximum-likelihood estimate solves sum of g(vote) = 0 for gradients g = w (y - p) x, with x = e_i - e_j (and the
style covariates), y the score and p its expectation. To first order, a vote taken out moves a difference c't by
-c'H^-1 g, and a vote turned round by c'H^-1 w (1 - 2 y) x, for the Hessian H (Broderick, Giordano and Meager, "An
automatic finite-sample robustness metric", 2020; for votes Huang et al., arXiv 2508.11847). Without style, all votes of
one pair with one score and weight have the same influence, so they are one kind and are counted.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import polars as pl
from scipy.special import expit

from tasks.leaderboard.bradley_terry import Structure, laplacian, log_strengths, structure
from tasks.leaderboard.style_control import StyledVotes, fit
from tasks.leaderboard.votes import Mask, Numbers, Vector, Votes

RankedModels = tuple[int, int]
"""Two models, by number; the first leads."""
_KIND = ["pair", "score", "weight"]


@dataclass(frozen=True)
class Ballots:
    """Votes in units that are changed as a whole: votes of one kind one by one, or clusters such as prompts."""

    cast: Votes
    """One row a kind, or one a kind and cluster; with style one row a vote."""
    unit: Numbers
    """int64 (rows,): unit of each row."""
    most: Vector
    """float64 (units,): how often a unit can be changed: the votes of its kind, or once."""
    each: Vector
    """float64 (rows,): votes of the row that one change of its unit changes."""
    members: pl.Series
    """list (units,): the votes of each unit, as places in the battles, in order."""
    style: StyledVotes | None = None
    """The same rows under style control; None for the plain board."""
    turned: bool = False
    """Whether a changed vote is reversed; otherwise it is removed."""

    @classmethod
    def of(cls, votes: Votes) -> Self:
        """Ballots of the plain board, from one row a vote."""
        table = pl.DataFrame({name: getattr(votes, name) for name in _KIND}).with_row_index("vote")
        if votes.cluster is not None:
            table = table.with_columns(cluster=pl.Series(votes.cluster))
        keys = [name for name in (*_KIND, "cluster") if name in table.columns]
        # A row is one kind of votes, or one kind in one cluster, with the places of its votes.
        rows = table.group_by(keys, maintain_order=True).agg("vote").sort(keys).with_row_index("row")
        times = rows["vote"].list.len().cast(pl.Float64).to_numpy()
        arrays: dict[str, Any] = {name: rows[name].to_numpy() for name in keys}
        cast = replace(votes, **arrays, times=times, swapped=np.zeros(len(times), bool))
        if votes.cluster is None:
            return cls(cast, np.arange(len(times)), times, np.ones(len(times)), rows["vote"])
        return cls(cast, arrays["cluster"], *_clusters(votes.cluster, times))

    @classmethod
    def styled(cls, data: StyledVotes) -> Self:
        """Ballots of the board under style control."""
        places, times = np.arange(len(data.weight)), data.cast.times
        if data.cast.cluster is not None:
            return cls(data.cast, data.cast.cluster, *_clusters(data.cast.cluster, times), data)
        return cls(data.cast, places, times, times, pl.Series(places).reshape((-1, 1)).arr.to_list(), data)

    @property
    def _weight(self) -> Vector:
        return self.cast.weight if self.style is None else self.style.weight

    def masses(self, changed: Vector) -> tuple[Vector, Vector]:
        """Weighted score and weight of each row (rows,) after changes (units,)."""
        score, times, moved = self.cast.score, self.cast.times, self.each * changed[self.unit]
        if self.turned:
            return self._weight * (times * score + moved * (1 - 2 * score)), self._weight * times
        return self._weight * score * (times - moved), self._weight * (times - moved)

    def refit(self, changed: Vector, start: Vector | None = None) -> tuple[Vector, Structure]:
        """Parameters after changes, and the structure of the votes; `start`: parameters to start from.

        Under style control the covariates keep their scale.
        """
        won, games = self.masses(changed)
        cast, models = self.cast, len(self.cast.models)
        score, count = (np.asarray(np.bincount(cast.pair, mass, len(cast.pairs)), np.float64) for mass in (won, games))
        components = structure(cast.pairs, score, count, models)
        if self.style is None:
            return log_strengths(cast.pairs, score, count, models, start, components), components
        score = np.divide(won, games, out=np.zeros(len(won)), where=games > 0)
        return fit(replace(self.style, cast=replace(cast, score=score), weight=games), start), components

    def gains(self, changed: Vector, at: Vector, finite: Mask, contest: RankedModels) -> Vector:
        """float64 (units,): what one more change of each unit takes off the first model's lead over the second.

        `at`: the parameters after `changed`; `finite`: models of finite rating. In log-odds.
        """
        aim = np.zeros(len(at))
        aim[contest[0]], aim[contest[1]] = 1, -1
        cast, games = self.cast, self.masses(changed)[1]
        ends = cast.pairs[cast.pair]
        if self.style is not None:
            chance = self.style.chances(at)
            hessian = self.style.information(games * chance * (1 - chance)) + np.diag(self.style.penalty)
            push = np.linalg.solve(hessian, aim)
            reach = push[ends[:, 0]] - push[ends[:, 1]] + self.style.style @ push[len(cast.models) :]
        else:
            chances = expit(at[cast.pairs[:, 0]] - at[cast.pairs[:, 1]])
            weight = np.bincount(cast.pair, games, len(cast.pairs)) * chances * (1 - chances)
            inside = np.flatnonzero(finite)
            met = finite[cast.pairs].all(axis=1)
            hessian = laplacian(cast.pairs[met], weight[met], len(at))[np.ix_(inside, inside)]
            push = np.zeros(len(at))
            push[inside] = np.linalg.solve(hessian + hessian.diagonal().mean() / len(inside), aim[inside])
            reach = np.where(met, push[cast.pairs[:, 0]] - push[cast.pairs[:, 1]], 0)[cast.pair]
            chance = chances[cast.pair]
        pull = 1 - 2 * cast.score if self.turned else chance - cast.score
        effect = self.each * self._weight * np.where(np.isfinite(pull), pull, 0) * reach
        return np.asarray(-np.bincount(self.unit, effect, len(self.most)), np.float64)

    def votes_of(self, changed: Vector) -> Numbers:
        """Places of the changed votes in the battles, in order; of equal votes the first."""
        places = []
        for unit in np.flatnonzero(changed):
            members = self.members[int(unit)].to_numpy()
            places.append(members[: int(changed[unit])] if self.most[unit] > 1 else members)
        return np.sort(np.concatenate(places)).astype(np.int64) if places else np.zeros(0, np.int64)


def _clusters(cluster: Numbers, times: Vector) -> tuple[Vector, Vector, pl.Series]:
    """`most`, `each` and `members` where whole clusters are changed."""
    table = pl.DataFrame({"cluster": cluster}).with_row_index("vote")
    members = table.group_by("cluster").agg("vote").sort("cluster")["vote"]
    return np.ones(len(members)), times, members
