"""Which models are connected by battles, and which of them have a finite maximum-likelihood rating."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from tasks.leaderboard.votes import LOST, TIED, WON, Mask, Matrix, Numbers


class Structure(NamedTuple):
    """What the graph of wins says about each model; all arrays are (models,)."""

    group: Numbers
    """Models with equal numbers are connected by battles; 0 is the group with the most battles, -1 has no battle."""
    core: Mask
    """The largest strongly connected set of each group: chains of wins lead from each of its models to every other."""
    bounded_below: Mask
    """A chain of wins leads from the model to its group's core, so its rating has a finite lower bound."""
    bounded_above: Mask
    """A chain of wins leads from its group's core to the model, so its rating has a finite upper bound."""


def structure(pairs: Numbers, counts: Matrix, models: int) -> Structure:
    """The structure of the votes in counts (pairs, 3). Ties count as a win of each side (Ford 1957)."""
    wins = _win_graph(pairs, counts, models)
    group, core = _groups_and_core(wins, pairs, counts)
    below, above = core.copy(), core.copy()
    if not core.all():
        for number in range(group.max(initial=-1) + 1):
            inside = np.flatnonzero(core & (group == number))
            if len(inside):
                above[breadth_first_order(wins, inside[0], return_predecessors=False)] = True
                below[breadth_first_order(wins.T, inside[0], return_predecessors=False)] = True
    return Structure(group, core, below, above)


def _win_graph(pairs: Numbers, counts: Matrix, models: int) -> csr_array:
    """(models, models): an edge from the winner to the loser of every pair, both ways for a tie."""
    first, second = pairs.T
    forth, back = counts[:, WON] + counts[:, TIED] > 0, counts[:, LOST] + counts[:, TIED] > 0
    winner, loser = np.concatenate([first[forth], second[back]]), np.concatenate([second[forth], first[back]])
    return csr_array((np.ones(len(winner)), (winner, loser)), shape=(models, models))


def _groups_and_core(wins: csr_array, pairs: Numbers, counts: Matrix) -> tuple[Numbers, Mask]:
    models, games = wins.shape[0], counts.sum(axis=1)
    battles = np.bincount(pairs.ravel(), np.repeat(games, 2), models)
    label = connected_components(wins, directed=False)[1]
    strong = connected_components(wins, directed=True, connection="strong")[1]
    sizes = np.bincount(strong, minlength=1)
    held = np.bincount(label, battles, minlength=1)
    group, core = np.full(models, -1), np.zeros(models, bool)
    for number, found in enumerate(np.argsort(-held, kind="stable")[: np.count_nonzero(held)]):
        members = np.flatnonzero(label == found)
        largest = strong[members[sizes[strong[members]].argmax()]]
        group[members] = number
        core[members] = (strong[members] == largest) & (sizes[largest] > 1)
    return group, core
