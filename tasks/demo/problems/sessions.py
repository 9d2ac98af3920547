"""Sessions whose lines have to be put together with care, and records in their other shapes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from random import Random

from tasks.demo.log_writer import Channel, Fact, LogLine, record_line
from tasks.demo.problems.plan import EXACT, IN_MESSAGES, Planter, Problem, texts
from tasks.demo.records import Talk, Turn, chat, feedback
from tasks.demo.stage import Stage, chat_lines
from tasks.demo.timeline import MIDNIGHT_SECONDS, Moment
from tasks.demo.words import load

TIMES = 3


def regenerated(stage: Stage, rng: Random) -> Iterator[Problem]:
    """The last answer was asked for again: two lines of equal length, of which the second counts."""
    for _ in range(TIMES):
        yield Problem(partial(_regenerated, stage))


def image_resets(stage: Stage, rng: Random) -> Iterator[Problem]:
    """A second upload empties the messages and keeps the conv_id: two conversations under one id."""
    for _ in range(TIMES):
        yield Problem(partial(_image_reset, stage), EXACT)


def night_owls(stage: Stage, rng: Random) -> Iterator[Problem]:
    """One conversation in the files of two days."""
    for _ in range(TIMES):
        yield Problem(partial(_night_owl, stage), EXACT, needs_morrow=True)


def stringified(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Records of the remote logger, whose nested values are JSON in strings."""
    for _ in range(TIMES):
        yield Problem(partial(_stringified, stage), IN_MESSAGES)


def few_shots(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Templates that begin with examples, which are nobody's messages."""
    for _ in range(TIMES):
        yield Problem(partial(_few_shot, stage), EXACT)


def without_picture(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Conversations without a picture, in the server's text log."""
    for text in texts("text_only"):
        yield Problem(partial(_text_only, stage, text["prompt"]))


def user_flags(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Conversations that a user reported."""
    for _ in range(TIMES):
        yield Problem(partial(_reported, stage))


def _regenerated(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    talk, person = _talk(stage, rng, moment), stage.crowd.anybody(rng)
    prompt = talk.turns[0].prompt
    again = replace(talk, turns=(Turn(prompt, f"On second thought: {talk.turns[0].answer}"),))
    fact = _fact("regenerated", talk) | {"keep_answer": again.turns[0].answer}
    later = Moment(moment.day, moment.at + 40)
    return [*chat_lines(rng, talk, moment, person), *chat_lines(rng, again, later, person, [fact])]


def _image_reset(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    first, second, person = _talk(stage, rng, moment), _talk(stage, rng, moment), stage.crowd.anybody(rng)
    while second.picture == first.picture:
        second = _talk(stage, rng, moment)
    second = replace(second, conv_id=first.conv_id, model=first.model)
    fact = _fact("image_reset_same_conv_id", first) | {"conversations": 2}
    later = Moment(moment.day, moment.at + 90)
    return [*chat_lines(rng, first, moment, person), *chat_lines(rng, second, later, person, [fact])]


def _night_owl(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    late = Moment(moment.day, moment.day.start + MIDNIGHT_SECONDS - 14)
    talk = _talk(stage, rng, late, turns=2)
    return chat_lines(rng, talk, late, stage.crowd.anybody(rng), [_fact("crosses_midnight", talk) | {"turns": 2}])


def _stringified(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    talk = _talk(stage, rng, moment)
    record = chat(talk, moment.era, 1, moment.at - 5, moment.at, stage.crowd.anybody(rng).address)
    record |= {key: json.dumps(record[key]) for key in ("state", "gen_params")}
    return [record_line(record, facts=(_fact("stringified_record", talk),))]


def _few_shot(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    talk = replace(_talk(stage, rng, moment), examples=tuple(load("problem_texts")["few_shot_offset"]))
    fact = _fact("few_shot_offset", talk) | {"num_turns": 1}
    return chat_lines(rng, talk, moment, stage.crowd.anybody(rng), [fact])


def _text_only(stage: Stage, prompt: str, rng: Random, moment: Moment) -> list[LogLine]:
    talk = stage.talk(rng, stage.picture(rng, moment), [prompt])
    talk = replace(talk, picture=None, turns=(Turn(prompt, load("problem_texts")["text_answer"]),))
    return chat_lines(rng, talk, moment, stage.crowd.anybody(rng), [_fact("text_only", talk)], Channel.TEXT)


def _reported(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    talk, person = _talk(stage, rng, moment), stage.crowd.anybody(rng)
    lines = chat_lines(rng, talk, moment, person)
    record = feedback("flag", talk, moment.era, lines[-1].at + 8, person.address)
    return [*lines, record_line(record, facts=(_fact("user_flag", talk),))]


def _talk(stage: Stage, rng: Random, moment: Moment, turns: int = 1) -> Talk:
    picture = stage.picture(rng, moment)
    return stage.talk(rng, picture, stage.prompts(rng, picture, count=turns))


def _fact(kind: str, talk: Talk) -> Fact:
    return {"kind": kind, "conversation_id": talk.conv_id}


PLANTERS: dict[str, Planter] = {
    "regenerated": regenerated,
    "image_reset_same_conv_id": image_resets,
    "crosses_midnight": night_owls,
    "stringified_record": stringified,
    "few_shot_offset": few_shots,
    "text_only": without_picture,
    "user_flag": user_flags,
}
"""Kind -> what plants it."""
