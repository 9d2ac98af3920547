"""Conversations that the server flagged as child abuse. Nothing is shown: most have no picture file at all.

One has: a grey card, drawn here, so that a test can prove that the file is never opened.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from random import Random

import PIL.Image

from tasks.demo.log_writer import Channel, Fact, LogLine
from tasks.demo.problems.plan import EXACT, Planter, Problem, upload
from tasks.demo.records import Talk, Turn, new_conv_id
from tasks.demo.stage import Stage, battle_lines, chat_lines
from tasks.demo.timeline import Moment


def flagged(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Flags in the server's own file, in a normal file, on the right side of a vote, and on a second turn only."""
    yield Problem(partial(_in_chat, stage, Channel.CSAM), EXACT)
    yield Problem(partial(_in_chat, stage, Channel.VISION), EXACT)
    yield Problem(partial(_on_the_right, stage), EXACT)
    yield Problem(partial(_later, stage), EXACT)
    yield Problem(partial(_with_file, stage), EXACT)


def _in_chat(stage: Stage, channel: Channel, rng: Random, moment: Moment) -> list[LogLine]:
    talk = replace(_talk(stage, rng, new_conv_id(rng)), flagged=True)
    fact = _fact(talk, "csam file" if channel is Channel.CSAM else "normal file")
    return chat_lines(rng, talk, moment, stage.crowd.anybody(rng), [fact], channel)


def _on_the_right(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    picture = upload(new_conv_id(rng))
    left, right = stage.pair(rng, picture, ["What is this?"])
    right = replace(right, flagged=True)
    return battle_lines(rng, (left, right), moment, stage.crowd.anybody(rng), [_fact(right, "right side")])


def _later(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """The first turn is logged as usual, the second one flagged: the first must go too."""
    talk, person = _talk(stage, rng, new_conv_id(rng)), stage.crowd.anybody(rng)
    first = chat_lines(rng, talk, moment, person)
    longer = replace(talk, turns=(*talk.turns, Turn("And now?", "Nothing new.")), flagged=True)
    later = chat_lines(
        rng, longer, Moment(moment.day, moment.at + 60), person, [_fact(longer, "later turn")], Channel.CSAM
    )
    return [*first, later[-1]]


def _with_file(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    grey = rng.randint(60, 200)
    card = PIL.Image.new("RGB", (rng.randint(200, 400), rng.randint(200, 400)), (grey, grey, grey))
    talk = replace(_talk(stage, rng, stage.pictures.save(card, moment.era)), flagged=True)
    fact = _fact(talk, "grey card on disk")
    return chat_lines(rng, talk, moment, stage.crowd.anybody(rng), [fact], Channel.CSAM)


def _talk(stage: Stage, rng: Random, picture: str) -> Talk:
    return stage.talk(rng, upload(picture), ["What is this?"])


def _fact(talk: Talk, detail: str) -> Fact:
    return {"kind": "csam_flag", "conversation_id": talk.conv_id, "image": talk.picture, "detail": detail}


PLANTERS: dict[str, Planter] = {"csam_flag": flagged}
"""Kind -> what plants it."""
