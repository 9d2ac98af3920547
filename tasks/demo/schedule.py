"""Who goes on when: ordinary traffic and planted problems, dealt out to the days and mixed within each."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from random import Random

from tasks.demo.chance import chance
from tasks.demo.problems import PLANTERS
from tasks.demo.problems.plan import Problem
from tasks.demo.stage import Scene, Stage
from tasks.demo.timeline import LogDay, log_days
from tasks.demo.traffic import battle, direct_chat

ONE_ROUND = 1_000
"""Problems are planted once, and once more for each tenfold of this many conversations."""


class Bill:
    """What is played on one day, in random order, without a list of the ordinary part."""

    def __init__(self, stage: Stage, chats: int, battles: int, problems: Sequence[Problem]) -> None:
        self.count = chats + battles + len(problems)
        self._left = [chats, battles, len(problems)]
        self._ordinary: tuple[Scene, ...] = (partial(direct_chat, stage), partial(battle, stage))
        self._problems = [problem.scene for problem in problems]

    def scenes(self, rng: Random) -> Iterator[Scene]:
        """Every scene once."""
        for left in range(self.count, 0, -1):
            drawn, kind = rng.randrange(left), 0
            while drawn >= self._left[kind]:
                drawn -= self._left[kind]
                kind += 1
            self._left[kind] -= 1
            yield self._ordinary[kind] if kind < len(self._ordinary) else self._problems.pop()


def planted(stage: Stage, conversations: int, seed: int) -> dict[LogDay, list[Problem]]:
    """Every problem, on a day on which it can happen."""
    rounds = 1 + max(0, int(math.log10(max(1, conversations) / ONE_ROUND)))
    found: dict[LogDay, list[Problem]] = {}
    for kind, plant in PLANTERS.items():
        for number in range(rounds):
            rng = chance(seed, kind, number)
            for problem in plant(stage, rng):
                found.setdefault(_day_for(problem, rng), []).append(problem)
    return found


def _day_for(problem: Problem, rng: Random) -> LogDay:
    days = [d for d in log_days() if d.era in problem.eras and (d.has_morrow or not problem.needs_morrow)]
    return rng.choices(days, [day.share for day in days])[0]
