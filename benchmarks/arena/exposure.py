"""How rules of the draw serve intervals and equal exposure, in simulated arenas; figures of docs/integrity.md.

12 models, three of which come after half of 6,000 votes; with a plan, a new one every 500 votes.
"""

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

from schemas.asked_model import ArenaModel
from tasks.arena.pool import Sampling, VotesOfPairs, draw_pair
from tasks.leaderboard.leaderboard import leaderboard
from tasks.leaderboard.vote_plan import separations
from tasks.leaderboard.votes import votes

MODELS, VOTES, NIGHT, ARENAS = 12, 6_000, 500, 10
RULES: dict[str, dict[str, bool]] = {
    "weights": {},
    "equal": {"equal": True},
    "narrow": {"narrow": True},
    "plan": {"plan": True},
    "plan, equal": {"plan": True, "equal": True},
}


def run() -> list[dict[str, Any]]:
    """A row for each set of rules: means over arenas."""
    rows = []
    for name, rules in RULES.items():
        most_to_fewest, widest, separated = np.mean([_arena(seed, rules) for seed in range(ARENAS)], axis=0).round(2)
        measured = {"most_to_fewest": most_to_fewest, "widest_half_interval": widest, "pairs_separated": separated}
        rows.append({"bench": f"exposure: {name}", "n": VOTES, **{key: float(each) for key, each in measured.items()}})
    return rows


def _arena(seed: int, rules: dict[str, bool]) -> tuple[float, float, int]:
    rng, generator = Random(seed), np.random.default_rng(seed)
    models = [ArenaModel(name=f"m{n:02}", base_url="http://127.0.0.1") for n in range(MODELS)]
    at = dict(zip((model.name for model in models), np.sort(generator.normal(0, 0.5, MODELS))[::-1], strict=True))
    met, cast, plan = Counter[frozenset[str]](), list[tuple[str, str, str]](), dict[frozenset[str], int]()
    for number in range(VOTES):
        if rules.get("plan") and number and number % NIGHT == 0:
            plan = dict(_plan(_table(cast)))
        present = [model for n, model in enumerate(models) if number >= VOTES // 2 or n % 5 != 3]
        sampling = Sampling(narrow="narrow" in rules, equal="equal" in rules, plan=plan)
        drawn = draw_pair(present, rng, met, sampling)
        assert drawn is not None
        a, b = (model.name for model in drawn.pair)
        met[frozenset((a, b))] += 1
        cast.append((a, b, "model_a" if rng.random() < expit(at[a] - at[b]) else "model_b"))
    board = leaderboard(votes(_table(cast)))
    sides = Counter(name for row in cast for name in row[:2])
    widest = max((row.ci95_high or np.inf) - (row.ci95_low or -np.inf) for row in board) / 2
    separated = sum("separated" in row.flags for row in separations(_table(cast), "overall"))
    return max(sides.values()) / min(sides.values()), widest, separated


def _plan(table: pl.DataFrame) -> VotesOfPairs:
    rows = separations(table, "overall")
    return {
        frozenset((row.model or "", row.rival or "")): row.votes
        for row in rows
        if row.votes and "too_close" not in row.flags
    }


def _table(cast: list[tuple[str, str, str]]) -> pl.DataFrame:
    return pl.DataFrame(cast, schema=["model_a", "model_b", "winner"], orient="row")
