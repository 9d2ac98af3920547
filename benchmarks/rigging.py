"""Attacks on a board (Min et al., ICML 2025, arXiv 2501.17858, and five more), and what `--table suspects` finds.

Attackers join honest voters: those of a simulated arena, and the 124 people of a published one (tests/published). They
vote for a target in the lower half, in battles that the arena draws, over a month or within one hour. Target-only
attackers vote for it where they see it, and else at random, a tie, not at all (abstain), or as honest voters do
(normal). Omnipresent ones vote in every battle for the side that lifts it: its rating (absolute), its distance to the
next model above (relative), or what sequential Elo gives at once (online).

Five more are less plain. They vote down the six next models above and abstain else (demote_six), or all above
(demote_above) or the three next (close_rivals) and vote as honest voters else; vote as honest voters, and for the
target in the second half (sleeper); or give it a tie where an honest voter gives it a loss (no_loss). Attackers tell
each model with the accuracy of the row, and otherwise take it for any other.

`found` is the share of attackers, and `votes_found` of their votes, at the threshold that 1 % of the honest voters
pass. `rank`, `rigged_rank` and `left_rank` are the target's places before, after, and after without the suspects, which
are `named` of the attackers and `named_honest` of the honest voters.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.special import expit

from tasks.leaderboard.bradley_terry import laplacian, log_strengths
from tasks.leaderboard.suspects.named import suspected, tested
from tasks.leaderboard.votes import Matrix, Numbers, Vector, rateable, votes

VOTES = (10, 100, 1000, 3000)
VOTERS = (1, 10, 300)
WAYS = ((1.0, 30.0), (0.6, 30.0), (1.0, 1 / 24))
"""Accuracy of attackers, and days over which they vote."""
DEMOTED = {"demote_six": 6, "demote_above": None, "close_rivals": 3}
"""Attack -> how many of the next models above the target it votes down; None for all."""
ATTACKS = ("random", "tie", "abstain", "normal", "relative", "absolute", "online", *DEMOTED, "sleeper", "no_loss")
MODELS, HONEST_VOTES, HONEST_VOTERS = 30, 20_000, 2_000
TASTE_DEVIATION, CARELESS_SHARE, TIE_SHARE = 0.3, 0.03, 0.25
"""Of honest voters: log-odds of a taste for each model, who vote at random, and ties."""
FALSE_ALARM = 0.01
DAYS = 30
PEOPLE = Path(__file__).parents[1] / "tests" / "published" / "llmfao-votes.csv"
_NAMES = np.array(["model_b", "tie", "model_a"])


class World(NamedTuple):
    """Honest votes, and how honest people would vote on other battles."""

    name: str
    battles: pl.DataFrame
    models: list[str]
    strengths: Vector
    reach: Matrix
    """float64 (models, models, models): change of the third's strength for a win of the first over the second."""
    target: int


def run() -> list[dict[str, Any]]:
    """A row for each world and attack, of means over all it prints: accuracies, numbers of attackers and of votes."""
    rows = []
    for world in (_simulated(), _people()):
        honest = _rank(world.battles, world)
        for attack, (accuracy, days), voters, count in product(ATTACKS, WAYS, VOTERS, VOTES):
            if count >= voters:
                rows.append(_played(world, honest, attack, accuracy, days, voters, count))
                print(json.dumps(rows[-1]), flush=True)
    return summed(rows)


def summed(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each world and attack: shares, and the places that the target gains with and without suspects."""
    mean = {name: pl.col(name).mean().round(3) for name in ("found", "votes_found", "named")}
    gained, left = (pl.col("rank") - pl.col(name) for name in ("rigged_rank", "left_rank"))
    made = pl.DataFrame(rows).group_by("bench", maintain_order=True)
    return made.agg(
        n=pl.len(), **mean, named_honest_max=pl.col("named_honest").max(),
        places_gained=gained.mean().round(1), places_left=left.mean().round(1),
    ).to_dicts()  # fmt: skip


def _played(
    world: World, rank: int, attack: str, accuracy: float, days: float, voters: int, count: int
) -> dict[str, Any]:
    generator = np.random.default_rng(voters * 10_000 + count)
    rigged = pl.DataFrame(list(_attack(world, attack, accuracy, count, generator)), orient="row", schema=_COLUMNS)
    rigged = rigged.with_columns(
        judge=pl.format("rigger {}", pl.int_range(pl.len()) % voters), tstamp=_times(count, days, generator)
    )
    both = pl.concat([world.battles, rigged]).sort("tstamp")
    found = tested(both)
    named = {row.judge: row.p_value for row in suspected(both, found)}
    score = pl.DataFrame({"judge": found.names, "p": found.alone}).with_columns(
        p=pl.min_horizontal("p", pl.col("judge").replace_strict(named, default=1.0)),
        bad=pl.col("judge").str.starts_with("rigger"),
    )
    honest = score.filter(~pl.col("bad"))
    allowed = int(FALSE_ALARM * honest.height)
    caught = score.filter("bad", pl.col("p") < honest["p"].sort()[allowed])["judge"]
    bad = score.filter("bad", pl.col("judge").is_in([*named]))
    return {
        "bench": f"rigging: {world.name}, {attack}",
        "n": count,
        "voters": voters,
        "accuracy": accuracy,
        "days": round(days, 2),
        "found": round(len(caught) / voters, 3),
        "votes_found": round(rigged["judge"].is_in(caught.implode()).mean(), 3),  # type: ignore[arg-type]
        "named": round(bad.height / voters, 3),
        "named_honest": round((len(named) - bad.height) / honest.height, 4),
        "rank": rank,
        "rigged_rank": _rank(both, world),
        "left_rank": _rank(both.filter(~pl.col("judge").is_in([*named])), world),
    }


_COLUMNS = ["model_a", "model_b", "winner"]


def _attack(
    world: World, attack: str, accuracy: float, count: int, generator: np.random.Generator
) -> Iterator[tuple[str, ...]]:
    """`count` votes of attackers who see `attack`'s battles; abstentions are no votes."""
    models, elo = len(world.models), world.strengths.copy()
    above = world.strengths > world.strengths[world.target]
    order = np.flatnonzero(above)[np.argsort(world.strengths[above])]
    rival, demoted = int(order[0]), order[: DEMOTED.get(attack)]
    cast = 0
    while cast < count:
        pair = generator.choice(models, 2, replace=False)
        wrong = generator.random(2) >= accuracy
        seen = np.where(wrong, (pair + generator.integers(1, models, 2)) % models, pair)
        luck, at = int(generator.integers(3)), np.flatnonzero(seen == world.target)
        if attack in (*DEMOTED, "no_loss") or (attack == "sleeper" and (cast < count / 2 or not len(at))):
            choice = _honest(world, pair, generator)
            pressed = np.isin(seen, demoted) & (attack in DEMOTED)
            if pressed[0] != pressed[1]:
                choice = 2 * int(pressed[1])
            elif attack == "demote_six":
                continue
            if attack == "no_loss" and len(at) and choice == 2 * int(at[0]):
                choice = 1
        elif len(at):
            choice = 2 - 2 * int(at[0])
        elif attack == "abstain":
            continue
        elif attack in ("random", "tie"):
            choice = luck if attack == "random" else 1
        elif attack == "normal" or seen[0] == seen[1]:
            choice = 2 * int(generator.random() < expit(world.strengths[pair[0]] - world.strengths[pair[1]]))
        elif attack == "online":
            choice = 2 if elo[seen[0]] < elo[seen[1]] else 0
        else:
            lift = world.reach[seen[0], seen[1]]
            choice = 2 if lift[world.target] > (lift[rival] if attack == "relative" else 0) else 0
        change = 4 * np.log(10) / 400 * (choice / 2 - expit(elo[pair[0]] - elo[pair[1]]))
        elo[pair[0]] += change
        elo[pair[1]] -= change
        cast += 1
        yield world.models[pair[0]], world.models[pair[1]], str(_NAMES[choice])


def _honest(world: World, pair: Numbers, generator: np.random.Generator) -> int:
    """Place in `_NAMES` of an honest vote on a pair."""
    won = generator.random() < expit(world.strengths[pair[0]] - world.strengths[pair[1]])
    return 1 if generator.random() < TIE_SHARE else 2 * int(won)


def _simulated() -> World:
    generator = np.random.default_rng(7)
    strengths = np.sort(generator.normal(0, 0.7, MODELS))[::-1]
    taste = generator.normal(0, TASTE_DEVIATION, (HONEST_VOTERS, MODELS))
    careless = generator.random(HONEST_VOTERS) < CARELESS_SHARE
    busy = generator.pareto(1.2, HONEST_VOTERS) + 0.2
    who = generator.choice(HONEST_VOTERS, HONEST_VOTES, p=busy / busy.sum())
    first = generator.integers(0, MODELS, HONEST_VOTES)
    second = (first + generator.integers(1, MODELS, HONEST_VOTES)) % MODELS
    log_odds = strengths[first] - strengths[second] + taste[who, first] - taste[who, second]
    won = generator.random(HONEST_VOTES) < np.where(careless[who], 0.5, expit(log_odds))
    tied = generator.random(HONEST_VOTES) < TIE_SHARE
    names = [f"m{n:02}" for n in range(MODELS)]
    battles = pl.DataFrame(
        {
            "model_a": np.array(names)[first],
            "model_b": np.array(names)[second],
            "winner": _NAMES[np.where(tied, 1, 2 * won)],
            "judge": [f"honest {n}" for n in who],
        }
    )
    return _world("simulated", battles, generator)


def _people() -> World:
    voted = pl.read_csv(PEOPLE, infer_schema=False)
    voted = voted.select("winner", model_a="left", model_b="right", judge="worker")
    return _world("people", rateable(voted.select(*_COLUMNS, "judge")), np.random.default_rng(8))


def _world(name: str, battles: pl.DataFrame, generator: np.random.Generator) -> World:
    cast = votes(battles)
    wins, games = cast.sums()
    strengths = log_strengths(cast.pairs, wins, games, len(cast.models))
    chance = expit(strengths[cast.pairs[:, 0]] - strengths[cast.pairs[:, 1]])
    covariance = np.linalg.pinv(laplacian(cast.pairs, games * chance * (1 - chance), len(strengths)), hermitian=True)
    target = int(np.argsort(-strengths)[2 * len(strengths) // 3])
    timed = battles.with_columns(tstamp=_times(battles.height, DAYS, generator))
    return World(name, timed, cast.models, strengths, covariance[:, None] - covariance[None], target)


def _times(count: int, days: float, generator: np.random.Generator) -> pl.Series:
    seconds = np.sort(generator.uniform(0, days * 86_400, count))
    return pl.Series("tstamp", (seconds * 1e6).astype(np.int64)).cast(pl.Datetime("us", "UTC"))


def _rank(battles: pl.DataFrame, world: World) -> int:
    """Place of the target by its rating."""
    cast = votes(battles)
    strengths = log_strengths(cast.pairs, *cast.sums(), len(cast.models))
    return 1 + int((strengths > strengths[cast.models.index(world.models[world.target])]).sum())
