"""How few votes change a board: the fewest that change first place, and the order of each pair of neighbours.

Votes are removed, or reversed. Those with the most influence are taken (`influence.py`), the fit is repeated, their
influence is computed again there, and so on until the choice stays. A number is told only where the fit of exactly the
remaining votes has the other order. It is an upper bound: a cleverer choice may need fewer.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from schemas.rating import STYLE_CONTROL, Fragility, RatingMethod
from tasks.leaderboard.bradley_terry import SCALE, Structure, in_order
from tasks.leaderboard.influence import Ballots, RankedModels
from tasks.leaderboard.leaderboard import FEW_BATTLES
from tasks.leaderboard.style_control import StyledVotes, fit, measured_covariates, style_differences, styled
from tasks.leaderboard.votes import Mask, Numbers, Vector, Votes, votes
from tasks.runtime.parallel import one_blas_thread

FIRST_PLACE, NEIGHBOURS = "first_place", "neighbours"
_ROUNDS = 12
"""Most times that the influence is computed anew for one contest."""
_PROOFS = 4
"""Most searches for one contest under style control."""
_MARGIN = 1e-7
"""Log-odds by which the order must be the other one; the error of the fit is smaller."""
_RIVALS = 3
"""Models that are tried as the next first: those that need the fewest votes to first order."""
_DIGITS = 9
"""Influences that differ only beyond are equal, so that every machine names the same votes."""
_IDS = "question_id"


class _Board(NamedTuple):
    """A board as it is, and what it is computed from."""

    battles: pl.DataFrame
    method: RatingMethod
    cast: Votes
    """One row a battle."""
    ballots: Ballots
    """Votes in the units that are changed."""
    at: Vector
    """float64 (models,): log-strengths."""
    known: Structure
    """Groups of models whose ratings can be compared; see `finite`."""
    in_style: bool
    """Whether it is the board under style control."""
    sides_drawn: bool
    """Whether models were drawn on sides (`style_differences`)."""

    def finite(self) -> Mask:
        """Whether a model, bool (models,), has a finite rating on the scale of most models."""
        return np.asarray(self.known.core & (self.known.group == 0))

    def order(self) -> list[int]:
        """Models with a finite rating, best first."""
        return in_order(np.flatnonzero(self.finite()), self.at, self.cast.models)


@one_blas_thread()
def fragility(battles: pl.DataFrame, slice_name: str, method: RatingMethod) -> list[Fragility]:
    """Rows of the board of one slice, from its `rateable` battles: first place, then neighbours from the top.

    Neighbours follow each other by rating. With `method.cluster` whole prompts or voters are changed. A slice with less
    than 100 votes, and one without two models of finite rating, has one row, whose flags say so.
    """
    return _rows(battles, slice_name, method, in_style=False)


@one_blas_thread()
def styled_fragility(battles: pl.DataFrame, method: RatingMethod, *, sides_drawn: bool = True) -> list[Fragility]:
    """`fragility` of the board under style control; no rows for battles without style covariates.

    `sides_drawn` as for `style_differences`.
    """
    has_style = measured_covariates(battles) and battles.height
    return _rows(battles, STYLE_CONTROL, method, in_style=True, sides_drawn=sides_drawn) if has_style else []


def lead_after(battles: pl.DataFrame, row: Fragility, method: RatingMethod, *, sides_drawn: bool = True) -> float:
    """Log-odds by which the model of a row leads its rival on the board of the votes that its change leaves.

    `battles`: those of the board, with ids. `sides_drawn` as for `style_differences`. Infinite where a rating is not
    finite.
    """
    is_changed = battles[_IDS].is_in(row.needed_ids).fill_null(False)
    winner = pl.col("winner").replace({"model_a": "model_b", "model_b": "model_a"})
    # A row is one vote of the board after the change: without the named votes, or with these turned round.
    changed_battles = (
        battles.filter(~is_changed)
        if row.change == "removed"
        else battles.with_columns(
            pl.when(is_changed).then(winner).otherwise("winner").alias("winner"),
            *(
                [pl.when(is_changed).then(1 - pl.col("score")).otherwise("score").alias("score")]
                if "score" in battles.columns
                else []
            ),
        )
    )
    board = _board(changed_battles, method, in_style=row.slice == STYLE_CONTROL, sides_drawn=sides_drawn)
    # model -> log-strength, of those with a finite one
    finite = {board.cast.models[n]: float(board.at[n]) for n in board.order()}
    return finite.get(row.model or "", np.inf) - finite.get(row.rival or "", -np.inf)


def _board(battles: pl.DataFrame, method: RatingMethod, *, in_style: bool, sides_drawn: bool) -> _Board:
    cast = votes(battles, method.cluster)
    ballots = Ballots.styled(_styled(battles, cast, method, sides_drawn)) if in_style else Ballots.of(cast)
    fitted = ballots.refit(np.zeros(len(ballots.most)))
    return _Board(battles, method, cast, ballots, *fitted, in_style, sides_drawn)


def _rows(
    battles: pl.DataFrame, name: str, method: RatingMethod, *, in_style: bool, sides_drawn: bool = True
) -> list[Fragility]:
    about: dict[str, Any] = {"slice": name, "unit": method.cluster or "vote", "of": battles.height}
    if battles.height < FEW_BATTLES:
        return [Fragility(contest=FIRST_PLACE, flags=["few_battles"], **about)]
    board = _board(battles, method, in_style=in_style, sides_drawn=sides_drawn)
    about["of"] = int(board.ballots.most.sum())
    return [Fragility(**about, **values) for values in (*_first_place(board), *_neighbours(board))]


def _styled(battles: pl.DataFrame, cast: Votes, method: RatingMethod, sides_drawn: bool) -> StyledVotes:
    covariates, as_mean = measured_covariates(battles), method.unknown_style_as_mean
    style = style_differences(battles, covariates, sides_drawn=sides_drawn, unknown_as_mean=as_mean)
    return styled(cast, style, method.style_preset)


def _first_place(board: _Board) -> Iterator[dict[str, Any]]:
    """First place: the rival that needs the fewest votes to pass the leader, which then is not first.

    Whether the rival or a third model is first instead does not matter: no model takes the place with fewer votes.
    """
    order, models, group = board.order(), board.cast.models, board.known.group
    leader = next(iter(in_order(np.flatnonzero(group == 0), board.at, models)), 0)
    if len(order) < 2 or leader != order[0]:
        yield {"contest": FIRST_PLACE, "place": 1, "model": models[leader], "flags": ["unbounded"]}
        return
    for turned in (False, True):
        ballots = replace(board.ballots, turned=turned)
        # a contest is the leader and one rival; those that seem to need the fewest changes are first
        contests = sorted(((leader, n) for n in order[1:]), key=lambda pair: _estimate(board, ballots, pair))
        # the changes that were found for a contest, None where none were, beside it
        proofs = [(_proved(board, ballots, pair), pair) for pair in contests[:_RIVALS]]
        changed, contest = min(proofs, key=lambda proof: np.inf if proof[0] is None else proof[0].sum())
        yield _values(board, FIRST_PLACE, 1, ballots, contest, changed)


def _neighbours(board: _Board) -> Iterator[dict[str, Any]]:
    order = board.order()
    for place, contest in enumerate(itertools.pairwise(order), 1):
        for turned in (False, True):
            ballots = replace(board.ballots, turned=turned)
            yield _values(board, NEIGHBOURS, place, ballots, contest, _proved(board, ballots, contest))


def _values(
    board: _Board, what: str, place: int, ballots: Ballots, contest: RankedModels, changed: Vector | None
) -> dict[str, Any]:
    models, (first, second) = board.cast.models, contest
    needed = None if changed is None else int(changed.sum())
    return {
        "contest": what,
        "change": "reversed" if ballots.turned else "removed",
        "place": place,
        "model": models[first],
        "rival": models[second],
        "difference": SCALE * float(board.at[first] - board.at[second]),
        "needed": needed,
        "needed_fraction": None if needed is None else needed / ballots.most.sum(),
        "needed_ids": [] if changed is None else _ids_of(board.battles, ballots.votes_of(changed)),
        "flags": ["not_found"] if needed is None else [],
    }


def _ids_of(battles: pl.DataFrame, places: Numbers) -> list[str]:
    """The ids of the votes at some places; none where they would not name exactly these votes, as ids of prompts."""
    if _IDS not in battles.columns:
        return []
    ids = battles[_IDS][places].drop_nulls().unique(maintain_order=True)
    return ids.to_list() if battles[_IDS].is_in(ids.implode()).sum() == len(places) else []


def _estimate(board: _Board, ballots: Ballots, contest: RankedModels) -> float:
    """Changes that the contest needs to first order; infinite where all together are too few."""
    gains = ballots.gains(np.zeros(len(ballots.most)), board.at, board.finite(), contest)
    return float(_taken(gains, ballots.most, board.at[contest[0]] - board.at[contest[1]])[1])


def _taken(gains: Vector, most: Vector, lead: float) -> tuple[Numbers, float]:
    """The units in the order in which they are taken, and how many changes take off `lead`; infinite if all do not."""
    # units that take something off the lead, those that take most first
    rounded = np.round(gains / max(gains.max(initial=0), 1e-300), _DIGITS)
    order = np.argsort(-rounded, kind="stable")[: np.count_nonzero(rounded > 0)]
    # the lead that is off after the first unit, the first two, and so on, each changed as often as it can be
    total = np.cumsum(gains[order] * most[order])
    last = int(np.searchsorted(total, lead))
    if last == len(order):
        return order, np.inf
    before = total[last - 1] if last else 0.0
    return order, float(most[order[:last]].sum() + np.ceil((lead - before) / gains[order[last]]))


def _changes(order: Numbers, most: Vector, count: float) -> Vector:
    """(units,): the first `count` changes in an order of units."""
    changed = np.zeros(len(most))
    # changes that the units before one take; it gets what is left of `count`
    before = np.cumsum(most[order]) - most[order]
    changed[order] = np.clip(count - before, 0, most[order])
    return changed


def _proved(board: _Board, ballots: Ballots, contest: RankedModels) -> Vector | None:
    """The fewest changes (units,) found with which the board of exactly the remaining votes has the other order.

    Under style control the covariates of the remaining votes are standardised anew, which shifts the lead a little; the
    search is then repeated for a lead that is larger by as much.
    """
    beyond = 0.0
    for _ in range(_PROOFS):
        changed = _fewest(board, ballots, contest, beyond)
        if changed is None or ballots.turned or not board.in_style:
            return changed  # the last refit was on exactly these votes
        is_kept = np.ones(board.battles.height, bool)
        is_kept[ballots.votes_of(changed)] = False
        cast, names = board.cast.only(is_kept), [board.cast.models[model] for model in contest]
        at = fit(_styled(board.battles.filter(is_kept), cast, board.method, board.sides_drawn))
        lead = float(at[cast.models.index(names[0])] - at[cast.models.index(names[1])])
        if lead < -_MARGIN:
            return changed
        beyond += lead + 2 * _MARGIN
    return None


def _fewest(board: _Board, ballots: Ballots, contest: RankedModels, beyond: float = 0.0) -> Vector | None:
    """The fewest changes (units,) found after which the second model leads by `beyond` log-odds; None without any."""
    changed, at, finite, limit = np.zeros(len(ballots.most)), board.at, board.finite(), np.inf
    best: Vector | None = None
    order = np.zeros(0, np.int64)
    for _ in range(_ROUNDS):
        gains = ballots.gains(changed, at, finite, contest)
        lead = float(at[contest[0]] - at[contest[1]]) + beyond + float(gains @ changed)
        order, count = _taken(gains, ballots.most, lead + 2 * _MARGIN)
        count = (changed.sum() + ballots.most[order].sum()) // 2 if np.isinf(count) else count
        tried = _changes(order, ballots.most, min(count, limit))
        if np.array_equal(tried, changed):
            break
        moved, components = ballots.refit(tried, at)
        if not _together(components, contest):
            limit = (changed.sum() + tried.sum()) // 2  # so many leave a model without a win or a loss
            continue
        changed, at, finite = tried, moved, np.asarray(components.core & (components.group == 0))
        if _is_other(at, components, contest, beyond) and (best is None or changed.sum() < best.sum()):
            best = changed
    while best is not None and best.sum() > 1:
        changed = _changes(order, ballots.most, best.sum() - 1)
        if not _is_other(*ballots.refit(changed, at), contest, beyond):
            break
        best = changed
    return best


def _is_other(at: Vector, components: Structure, contest: RankedModels, beyond: float) -> bool:
    """Whether the second model leads, by more than `beyond` log-odds, and both ratings are finite."""
    return _together(components, contest) and bool(at[contest[0]] - at[contest[1]] < -beyond - _MARGIN)


def _together(components: Structure, contest: RankedModels) -> bool:
    return bool(components.core[[*contest]].all() and (components.group[[*contest]] == 0).all())
