"""Votes with a reason: prompts that two people vote both bad, and two voters who lift one weak model."""

from functools import partial
from random import Random
from typing import Any

from tasks.demo import drawings
from tasks.demo.drawings import FAMILIES
from tasks.demo.problems.plan import EXACT, IN_MESSAGES, Planter, planter, texts, upload
from tasks.demo.records import Fact, LogLine, Moment, models
from tasks.demo.traffic import Person, Stage, vote_line

FAILED_PEOPLE, FAILED_APART_SECONDS = 2, 900
TARGET = "willow-mini-vl"
VOTES, ASKS_EVERY = 12, 3
"""Votes of each, and of how many prompts one asks which model answers."""
APART_SECONDS, ANSWERED_SECONDS, HOUR_SECONDS = 2.0, 20.0, 3600
"""They play several battles at a time, so that one vote follows soon after another."""
RIGGERS = (Person("198.51.100.255", "en"), Person("203.0.113.255", "en"))
"""Addresses of nobody in the crowd."""


def _failed(failure: dict[str, Any], stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """Votes of different people, with other models each; the fact names the left conversation of the first vote.

    `family` is what the image shows; `pattern` is an image that the embedded NSFW classifier scores as pornography.
    """
    draw = FAMILIES.get(failure["family"], drawings.misread_pattern)
    image, lines = upload(stage.images.save(draw(rng).image, moment.era)), list[LogLine]()
    people = dict.fromkeys([stage.crowd.anybody(rng)])
    while len(people) < FAILED_PEOPLE:
        people[stage.crowd.anybody(rng)] = None
    for number, person in enumerate(people):
        talks = stage.pair(rng, image, [failure["prompt"]])
        fact = {"kind": "failure", "conversation_id": talks[0].conv_id, "failure_type": failure["type"]}
        then = Moment(moment.day, moment.at + number * FAILED_APART_SECONDS)
        lines += stage.battle(rng, then, talks, *([fact] if number == 0 else ()), person=person, vote="bothbad_vote")
    return lines


def _rigged(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """Two voters vote for the target on either side, within one hour and faster than anybody reads.

    Each one's first vote has the fact.
    """
    opened = moment.at - moment.at % HOUR_SECONDS + rng.uniform(60, HOUR_SECONDS / 2)
    lines: list[LogLine] = []
    for number in range(VOTES):
        for person in RIGGERS:
            at = Moment(moment.day, opened + number * APART_SECONDS)
            (target,) = (model for model in models() if model.name == TARGET)
            image, others = stage.image(rng, at), [model for model in models() if model is not target]
            pair = [target, others[number % len(others)]][:: 1 if rng.random() < 0.5 else -1]
            (prompt,) = stage.prompts(rng, image)
            asked = [f"Which model are you? {prompt}" if number % ASKS_EVERY == 0 else prompt]
            left, right = (stage.talk(rng, image, asked, model=model) for model in pair)
            facts: list[Fact] = [{"kind": "rigged_votes", "battle": left.conv_id, "model": TARGET}]
            vote = "leftvote" if pair[0] is target else "rightvote"
            voted = Moment(at.day, at.at + ANSWERED_SECONDS)
            chats = [line for talk in (left, right) for line in stage.chat(rng, at, talk, person=person)]
            lines += [*chats, vote_line(rng, voted, (left, right), person, *(facts if number == 0 else ()), vote=vote)]
    return lines


PLANTERS: dict[str, Planter] = {
    "failure": planter(*(partial(_failed, each) for each in texts("failure")), eras=EXACT),
    "rigged_votes": planter(_rigged, eras=IN_MESSAGES),
}
"""Kind -> function that plants it."""
