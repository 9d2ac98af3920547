"""Ordinary traffic: direct chats and anonymous battles in which nothing is wrong."""

from random import Random

from tasks.demo.log_writer import LogLine, record_line
from tasks.demo.records import feedback, vote
from tasks.demo.stage import Stage, battle_lines, chat_lines
from tasks.demo.timeline import Moment

_TURN_COUNTS, _TURN_WEIGHTS = (1, 2, 3, 4), (70, 18, 8, 4)
FEEDBACK_PROBABILITY, SHARE_PROBABILITY = 0.06, 0.02


def direct_chat(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """One user talks to one model; now and then a button is pressed."""
    person, picture = stage.crowd.anybody(rng), stage.picture(rng, moment)
    count = rng.choices(_TURN_COUNTS, _TURN_WEIGHTS)[0]
    talk = stage.talk(rng, picture, stage.prompts(rng, picture, person.language, count), person.language)
    lines = chat_lines(rng, talk, moment, person)
    if rng.random() < FEEDBACK_PROBABILITY:
        kind, at = rng.choice(["upvote", "downvote"]), lines[-1].at + rng.uniform(1, 20)
        lines.append(record_line(feedback(kind, talk, moment.era, at, person.address)))
    return lines


def battle(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """Two hidden models answer the same prompts and one vote is cast; now and then the page is shared."""
    person, picture = stage.crowd.anybody(rng), stage.picture(rng, moment)
    count = rng.choices(_TURN_COUNTS[:2], _TURN_WEIGHTS[:2])[0]
    talks = stage.pair(rng, picture, stage.prompts(rng, picture, person.language, count), person.language)
    lines = battle_lines(rng, talks, moment, person)
    if rng.random() < SHARE_PROBABILITY:
        names = [f"### Model {side}: {talk.model.name}" for side, talk in zip("AB", talks, strict=True)]
        at = lines[-1].at + rng.uniform(1, 20)
        lines.append(record_line(vote("share", talks, names, moment.era, at, person.address)))
    return lines
