"""Which models battles connect, and which of them have a finite maximum-likelihood rating."""

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from tasks.rate.votes import LOST, TIED, WON, Mask, Matrix, Numbers

Labels = npt.NDArray[np.int64]
_FEW = 64
"""Models up to which multiplying matrices is faster than searching a graph: 0.1 against 0.3 ms for 40."""


def structure(pairs: Numbers, counts: Matrix, models: int) -> tuple[Labels, Mask]:
    """(group, core) of every model, from counts (pairs, 3).

    `group` int64 (models,): models with equal numbers are connected by battles, 0 is the group of the model with
    most battles, -1 has no battle. `core` bool (models,): the largest set of each group in which wins lead from
    every model to every other.
    """
    first, second = pairs.T
    beats, beaten = np.zeros((models, models), bool), np.zeros((models, models), bool)
    tied = counts[:, TIED] > 0
    for won, winner, loser in (
        ((counts[:, WON] > 0) | tied, first, second),
        ((counts[:, LOST] > 0) | tied, second, first),
    ):
        beats.ravel()[winner[won] * models + loser[won]] = True
        beaten.ravel()[loser[won] * models + winner[won]] = True
    games = counts.sum(axis=1)
    battles = np.bincount(first, games, models) + np.bincount(second, games, models)
    pivot, played = int(battles.argmax()), battles > 0
    core = _reached(beats, pivot) & _reached(beaten, pivot)
    connected = core if (core == played).all() else _reached(beats | beaten, pivot)
    if (connected == played).all() and (2 * core.sum() > played.sum() > 1):  # nearly always
        return np.where(played, 0, -1), core
    return _searched(beats, pivot, played)


def _reached(beats: Mask, start: int) -> Mask:
    """Bool (models,): models that a chain of wins leads to, the start among them."""
    seen = np.zeros(len(beats), bool)
    seen[start] = True
    frontier = seen
    while frontier.any():
        frontier = beats[frontier].any(axis=0) & ~seen
        seen |= frontier
    return seen


def _searched(beats: Mask, pivot: int, played: Mask) -> tuple[Labels, Mask]:
    """The same, whatever the graph is like."""
    group, strong = _components(beats) if len(beats) <= _FEW else _components_of_many(beats)
    order = [group[pivot], *sorted({*group[played]} - {group[pivot]})]
    group = np.where(played, np.array([order.index(g) if g in order else -1 for g in group], np.int64), -1)
    core = np.zeros(len(beats), bool)
    sizes = np.bincount(strong)
    for number in range(len(order)):
        members = np.flatnonzero(group == number)
        largest = strong[members[sizes[strong[members]].argmax()]]
        core |= (strong == largest) & (sizes[largest] > 1)
    return group, core


def _components(beats: Mask) -> tuple[Labels, Labels]:
    """Connected and strongly connected components: each model has the number of the first one in its component."""
    leads = _closure(beats)
    return _closure(beats | beats.T).argmax(axis=1), (leads & leads.T).argmax(axis=1)


def _closure(beats: Mask) -> Mask:
    """Bool (models, models): whether a chain of wins leads from one to the other; its length doubles every round."""
    leads = beats | np.eye(len(beats), dtype=bool)
    while True:
        steps = leads.astype(np.float32)
        further = steps @ steps > 0
        if (further == leads).all():
            return leads
        leads = further


def _components_of_many(beats: Mask) -> tuple[Labels, Labels]:
    """The same by Tarjan's algorithm: slower to begin, and linear in the wins."""
    graph = csr_array(beats.astype(np.int8))
    group = np.asarray(connected_components(graph, directed=False)[1], np.int64)
    return group, np.asarray(connected_components(graph, directed=True, connection="strong")[1], np.int64)
