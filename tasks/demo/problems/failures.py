"""Prompts that two people vote both bad, one for each type of failure."""

from functools import partial
from random import Random
from typing import Any

from tasks.demo import drawings
from tasks.demo.drawings import FAMILIES
from tasks.demo.problems.plan import EXACT, Planter, planter, texts, upload
from tasks.demo.records import LogLine, Moment
from tasks.demo.traffic import Stage

PEOPLE, APART_SECONDS = 2, 900


def _failed(failure: dict[str, Any], stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """Votes of different people, with other models each; the fact names the left conversation of the first vote.

    `family` is what the image shows; `pattern` is an image that the embedded NSFW classifier scores as pornography.
    """
    draw = FAMILIES.get(failure["family"], drawings.misread_pattern)
    image, lines = upload(stage.images.save(draw(rng).image, moment.era)), list[LogLine]()
    people = dict.fromkeys([stage.crowd.anybody(rng)])
    while len(people) < PEOPLE:
        people[stage.crowd.anybody(rng)] = None
    for number, person in enumerate(people):
        talks = stage.pair(rng, image, [failure["prompt"]])
        fact = {"kind": "failure", "conversation_id": talks[0].conv_id, "failure_type": failure["type"]}
        then = Moment(moment.day, moment.at + number * APART_SECONDS)
        lines += stage.battle(rng, then, talks, *([fact] if number == 0 else ()), person=person, vote="bothbad_vote")
    return lines


PLANTERS: dict[str, Planter] = {"failure": planter(*(partial(_failed, each) for each in texts("failure")), eras=EXACT)}
"""Kind -> function that plants it."""
