"""Votes that need care: named models, names revealed afterwards, one model twice, sides of unequal length."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from random import Random

from tasks.demo.log_writer import Fact, LogLine
from tasks.demo.problems.plan import IN_MESSAGES, Planter, Problem
from tasks.demo.records import Talk, new_conv_id
from tasks.demo.stage import Stage, battle_lines, vote_line
from tasks.demo.timeline import Moment

TIMES = 3
_SPELLINGS = {
    "h3": "<h3>Model {side}: {name}</h3>\n",
    "markdown": "### Model {side}: {name}",
    "plain": "{name}",
}


def named(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Battles whose models were known from the start: they do not count as votes."""
    for _ in range(TIMES):
        yield Problem(partial(_shown, stage, "named_battle", "plain"))


def revealed(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Anonymous votes that were logged after the names had been shown: they do count."""
    for _ in range(2):
        for spelling in ("h3", "markdown"):
            yield Problem(partial(_shown, stage, "anonymous_revealed", spelling))


def against_itself(stage: Stage, rng: Random) -> Iterator[Problem]:
    """One model on both sides."""
    for _ in range(TIMES):
        yield Problem(partial(_against_itself, stage))


def unequal(stage: Stage, rng: Random) -> Iterator[Problem]:
    """One side failed on the second turn."""
    for _ in range(TIMES):
        yield Problem(partial(_unequal, stage))


def long_battles(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Three turns on both sides: one battle, not three."""
    for _ in range(TIMES):
        yield Problem(partial(_long, stage))


def votes_alone(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Votes whose chat lines were lost; the vote holds both conversations."""
    for _ in range(TIMES):
        yield Problem(partial(_alone, stage), IN_MESSAGES)


def _shown(stage: Stage, kind: str, spelling: str, rng: Random, moment: Moment) -> list[LogLine]:
    talks = _pair(stage, rng, moment)
    shown = [
        _SPELLINGS[spelling].format(side=side, name=talk.model.name) for side, talk in zip("AB", talks, strict=True)
    ]
    facts = [_fact(kind, talks) | {"spelling": spelling}]
    return battle_lines(rng, talks, moment, stage.crowd.anybody(rng), facts, shown)


def _against_itself(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    left, right = _pair(stage, rng, moment)
    talks = left, replace(right, model=left.model)
    return battle_lines(rng, talks, moment, stage.crowd.anybody(rng), [_fact("same_model_both_sides", talks)])


def _unequal(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    left, right = _pair(stage, rng, moment, turns=2)
    talks = left, replace(right, turns=right.turns[:1])
    return battle_lines(rng, talks, moment, stage.crowd.anybody(rng), [_fact("unequal_sides", talks)])


def _long(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    talks = _pair(stage, rng, moment, turns=3)
    fact = _fact("multi_turn_battle", talks) | {"num_turns": 3}
    return battle_lines(rng, talks, moment, stage.crowd.anybody(rng), [fact])


def _alone(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    talks = _pair(stage, rng, moment)
    facts = [_fact("vote_without_chat", talks)]
    return [vote_line(rng, talks, moment, moment.at, stage.crowd.anybody(rng), facts)]


def _pair(stage: Stage, rng: Random, moment: Moment, turns: int = 1) -> tuple[Talk, Talk]:
    picture = stage.picture(rng, moment)
    left, right = stage.pair(rng, picture, stage.prompts(rng, picture, count=turns))
    return left, replace(right, conv_id=new_conv_id(rng))


def _fact(kind: str, talks: tuple[Talk, Talk]) -> Fact:
    return {"kind": kind, "battle": talks[0].conv_id}


PLANTERS: dict[str, Planter] = {
    "named_battle": named,
    "anonymous_revealed": revealed,
    "same_model_both_sides": against_itself,
    "unequal_sides": unequal,
    "multi_turn_battle": long_battles,
    "vote_without_chat": votes_alone,
}
"""Kind -> what plants it."""
