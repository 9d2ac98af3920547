"""Choice of the models that are asked: the pool of those that answer now, and the two that are drawn for a battle.

A model that fails again and again leaves the pool for a while, and comes back. Pairs are drawn by weight, by what most
narrows the intervals of the board, or in part by a plan of the votes that it needs.
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from random import Random

from schemas.asked_model import ArenaModel
from schemas.errors import BadInput
from tasks.leaderboard.battle_files import read_table

Pair = tuple[ArenaModel, ArenaModel]
Plan = Mapping[frozenset[str], int]
"""Names of two models -> votes."""
FAILURES_UNTIL_DOWN = 3
"""Answers that must fail in a row."""
PLANNED_FRACTION = 0.5
"""Share of the battles that a plan draws; the others keep all models in view."""
FIRST_SECONDS, LONGEST_SECONDS = 30.0, 900.0
"""How long a model stays out: at first, and after it has failed again and again."""


class Pool:
    """The models of an arena. Thread-safe."""

    def __init__(self, models: Sequence[ArenaModel], clock: Callable[[], float] = time.monotonic) -> None:
        self.models = list(models)
        self._clock = clock
        self._failed: dict[str, int] = {}
        self._back_at: dict[str, float] = {}
        self._lock = threading.Lock()
        self.plan: Plan = {}
        """Votes that the board needs on pairs; none without a plan."""

    def available(self) -> list[ArenaModel]:
        """The models that may be asked now; one that was out is tried again when its time is over."""
        with self._lock:
            now = self._clock()
            return [model for model in self.models if self._back_at.get(model.name, now) <= now]

    def answered(self, name: str) -> None:
        """Note an answer."""
        with self._lock:
            self._failed.pop(name, None)
            self._back_at.pop(name, None)

    def failed(self, name: str) -> None:
        """Note a failure; each one beyond the third in a row doubles the time out."""
        with self._lock:
            count = self._failed[name] = self._failed.get(name, 0) + 1
            if count >= FAILURES_UNTIL_DOWN:
                seconds = FIRST_SECONDS * 2.0 ** min(count - FAILURES_UNTIL_DOWN, 10)
                self._back_at[name] = self._clock() + min(seconds, LONGEST_SECONDS)


def for_prompt(models: Sequence[ArenaModel], with_image: bool) -> list[ArenaModel]:
    """Vision models for a prompt with an image; text models for others, or all where there are fewer than two."""
    drawn = [model for model in models if model.weight > 0]
    if with_image:
        return [model for model in drawn if model.vision]
    texts = [model for model in drawn if not model.vision]
    return texts if len(texts) > 1 else drawn


def read_plan(file: Path, models: Sequence[ArenaModel]) -> Plan:
    """Planned votes on pairs of these models, summed over the rows of `curate rate --table plan --json`.

    Rows without models or votes count nothing, nor do those that are `too_close` for votes to tell. Raises BadInput for
    a file that is no such plan, or that plans nothing for these models.
    """
    rows = read_table(file, {"model", "rival", "votes", "flags"})
    if not {"model", "rival", "votes", "flags"} <= {*rows.columns} or rows.is_empty():
        raise BadInput(f"plan {str(file)!r} is not what `curate rate … --table plan --json` prints; write it anew")
    plan = Counter[frozenset[str]]()
    for row in rows.drop_nulls(["model", "rival", "votes"]).iter_rows(named=True):
        if "too_close" not in row["flags"]:
            plan[frozenset((row["model"], row["rival"]))] += int(row["votes"])
    known = {frozenset((a.name, b.name)) for a, b in combinations(models, 2)}
    wanted = {pair: votes for pair, votes in plan.items() if votes > 0 and pair in known}
    if not wanted:
        raise BadInput(f"plan {str(file)!r} asks for no vote on two of {', '.join(model.name for model in models)}")
    return wanted


def draw_pair(
    models: Sequence[ArenaModel], rng: Random, battles: Counter[frozenset[str]] | None = None, plan: Plan | None = None
) -> Pair | None:
    """Two different models in random order; None when there are fewer than two.

    A pair's chance is the product of its weights. With `battles`, the number of votes of each pair, it is also in
    proportion to what one more vote takes off the standard error of the pair's win rate, which goes with
    1 / sqrt(votes) (Chatbot Arena, arXiv 2403.04132, eq. 9, with equal variances and one vote more for each pair).
    With `plan`, half of the pairs are drawn by the product of their weights and the votes planned on them.
    """
    pairs = list(combinations(models, 2))
    if not pairs:
        return None
    weights = [a.weight * b.weight * _gain(battles, a, b) for a, b in pairs]
    planned = [a.weight * b.weight * (plan or {}).get(frozenset((a.name, b.name)), 0) for a, b in pairs]
    if any(planned) and rng.random() < PLANNED_FRACTION:
        weights = planned
    first, second = rng.choices(pairs, weights)[0]
    return (first, second) if rng.random() < 0.5 else (second, first)


def _gain(battles: Counter[frozenset[str]] | None, a: ArenaModel, b: ArenaModel) -> float:
    if battles is None:
        return 1.0
    votes = battles[frozenset((a.name, b.name))] + 1
    return math.sqrt(1 / votes) - math.sqrt(1 / (votes + 1))
