"""Log lines that must be rejected, sessions that are hard to assemble, votes, and conversations flagged as child abuse.

Flagged conversations show nothing: most have no image file. One has a grey card as its file, so that a test can prove
that the file is never opened.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import PIL.Image

from tasks.demo.problems.plan import EXACT, IN_MESSAGES, Planter, about, planter, texts, upload
from tasks.demo.records import (
    MIDNIGHT_SECONDS,
    Channel,
    Exchange,
    LogLine,
    Moment,
    PlantedFact,
    Talk,
    feedback,
    logged_turn,
    new_conv_id,
    record_line,
)
from tasks.demo.traffic import Stage, vote_line
from tasks.demo.words import load

LONG_BYTES = 16 * 1024 * 1024 + 1024
"""More than a state of 50 turns of 30,000 characters can take."""
NESTING = 20_000

LineRecord = dict[str, Any]


def _spoiled(detail: str, stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    content = SPOILERS[detail](_record(stage, rng, moment))
    return [LogLine(moment.at, content, facts=({"kind": "bad_line", "detail": detail},))]


def _torn_last_line(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """The server crashed while writing the last line of the day: half a record without a line end."""
    content = json.dumps(_record(stage, rng, moment)).encode()[:200]
    fact = {"kind": "bad_line", "detail": "torn last line"}
    at = moment.day.start + MIDNIGHT_SECONDS - 0.1
    return [LogLine(at, content, facts=(fact,), ended=False)]


def _record(stage: Stage, rng: Random, moment: Moment) -> LineRecord:
    talk = stage.any_talk(rng, moment)
    return logged_turn(talk, moment.era, 1, moment.at - 5, moment.at, stage.crowd.anybody(rng).address)


def _dumped(record: LineRecord) -> bytes:
    return json.dumps(record).encode()


def _replaced(bad: dict[str, Any], record: LineRecord) -> bytes:
    """The record with other values at the top or in its state, or without a key."""
    kept = {name: value for name, value in record.items() if name != bad.get("without")}
    state = {"state": record["state"] | bad["state"]} if "state" in bad else {}
    return _dumped(kept | bad.get("record", {}) | state)


def _nested(record: LineRecord) -> bytes:
    inner = b"[" * NESTING + b"]" * NESTING
    return _dumped(record | {"state": 0}).replace(b'"state": 0', b'"state": ' + inner)


def _long(record: LineRecord) -> bytes:
    return _dumped(record | {"padding": "long " * (LONG_BYTES // 5)})


SPOILERS: dict[str, Callable[[LineRecord], bytes]] = {
    "not json": lambda record: b"Traceback (most recent call last):",
    "cut in the middle": lambda record: _dumped(record)[: len(_dumped(record)) // 2],
    "blank": lambda record: b"",
    "spaces": lambda record: b"   \t ",
    "bad bytes": lambda record: _dumped(record).replace(b'"type"', b'"ty\xff\xfepe"'),
    "list": lambda record: _dumped(record).join((b"[", b"]")),
    "time without end": lambda record: _dumped(record | {"tstamp": 0}).replace(b'"tstamp": 0,', b'"tstamp": 1e999,'),
    "deep nesting": _nested,
    "very long": _long,
    **{bad["detail"]: partial(_replaced, bad) for bad in texts("bad_record")},
}
"""Fault -> function that spoils a record that way."""


_SPELLINGS = {"h3": "<h3>Model {side}: {name}</h3>\n", "markdown": "### Model {side}: {name}", "plain": "{name}"}


def _regenerated(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """The last answer was regenerated: two lines with the same number of messages, of which the second counts."""
    talk, person = stage.any_talk(rng, moment), stage.crowd.anybody(rng)
    again = replace(talk, turns=(Exchange(talk.turns[0].prompt, f"On second thought: {talk.turns[0].answer}"),))
    fact = about("regenerated", talk, keep_answer=again.turns[0].answer)
    later = Moment(moment.day, moment.at + 40)
    return [*stage.chat(rng, moment, talk, person=person), *stage.chat(rng, later, again, fact, person=person)]


def _image_reset(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """A second upload empties the messages and keeps the conv_id: two conversations under one id."""
    first, second, person = stage.any_talk(rng, moment), stage.any_talk(rng, moment), stage.crowd.anybody(rng)
    while second.image == first.image:
        second = stage.any_talk(rng, moment)
    second = replace(second, conv_id=first.conv_id, model=first.model)
    fact, later = about("image_reset_same_conv_id", first, conversations=2), Moment(moment.day, moment.at + 90)
    return [*stage.chat(rng, moment, first, person=person), *stage.chat(rng, later, second, fact, person=person)]


def _over_midnight(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """One conversation in the files of two days."""
    late = Moment(moment.day, moment.day.start + MIDNIGHT_SECONDS - 14)
    talk = stage.any_talk(rng, late, turns=2)
    return stage.chat(rng, late, talk, about("crosses_midnight", talk, turns=2))


def _stringified(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """A record of the remote logger, with nested values as JSON strings."""
    talk = stage.any_talk(rng, moment)
    record = logged_turn(talk, moment.era, 1, moment.at - 5, moment.at, stage.crowd.anybody(rng).address)
    record |= {key: json.dumps(record[key]) for key in ("state", "gen_params")}
    return [record_line(record, facts=(about("stringified_record", talk),))]


def _few_shot(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """A template that begins with few-shot examples, which are not messages of the user."""
    talk = replace(stage.any_talk(rng, moment), examples=tuple(load("problem_texts")["few_shot_offset"]))
    return stage.chat(rng, moment, talk, about("few_shot_offset", talk, num_turns=1))


def _text_only(prompt: str, stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """A conversation without an image, in the server's text log."""
    turn = Exchange(prompt, load("problem_texts")["text_answer"])
    talk = replace(stage.any_talk(rng, moment), image=None, turns=(turn,))
    return stage.chat(rng, moment, talk, about("text_only", talk), channel=Channel.TEXT)


def _reported(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """A conversation that a user reported."""
    talk, person = stage.any_talk(rng, moment), stage.crowd.anybody(rng)
    lines = stage.chat(rng, moment, talk, person=person)
    record = feedback("flag", talk, moment.era, lines[-1].at + 8, person.address)
    return [*lines, record_line(record, facts=(about("user_flag", talk),))]


def _names_shown(kind: str, spelling: str, stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """A battle with shown model names, or an anonymous one that was logged after the names were revealed."""
    talks = _pair(stage, rng, moment)
    form = _SPELLINGS[spelling]
    names = [form.format(side=side, name=talk.model.name) for side, talk in zip("AB", talks, strict=True)]
    return stage.battle(rng, moment, talks, _vote_fact(kind, talks, spelling=spelling), shown=names)


def _against_itself(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """One model on both sides."""
    left, right = _pair(stage, rng, moment)
    talks = left, replace(right, model=left.model)
    return stage.battle(rng, moment, talks, _vote_fact("same_model_both_sides", talks))


def _unequal(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """One side has no second turn."""
    left, right = _pair(stage, rng, moment, turns=2)
    talks = left, replace(right, turns=right.turns[:1])
    return stage.battle(rng, moment, talks, _vote_fact("unequal_sides", talks))


def _long_battle(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """Three turns on both sides: one battle, not three."""
    talks = _pair(stage, rng, moment, turns=3)
    return stage.battle(rng, moment, talks, _vote_fact("multi_turn_battle", talks, num_turns=3))


def _vote_alone(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """A vote whose chat lines were lost; the vote holds both conversations."""
    talks = _pair(stage, rng, moment)
    fact = _vote_fact("vote_without_chat", talks)
    return [vote_line(rng, moment, talks, stage.crowd.anybody(rng), fact)]


def _pair(stage: Stage, rng: Random, moment: Moment, turns: int = 1) -> tuple[Talk, Talk]:
    image = stage.image(rng, moment)
    return stage.pair(rng, image, stage.prompts(rng, image, count=turns))


def _vote_fact(kind: str, talks: tuple[Talk, Talk], **more: Any) -> PlantedFact:
    return {"kind": kind, "battle": talks[0].conv_id, **more}


def _flagged_chat(channel: Channel, detail: str, stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    talk = _flagged_talk(stage, rng, new_conv_id(rng))
    return stage.chat(rng, moment, talk, _flag_fact(talk, detail), channel=channel)


def _flagged_right(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    left, right = stage.pair(rng, upload(new_conv_id(rng)), ["What is this?"])
    right = replace(right, flagged=True)
    return stage.battle(rng, moment, (left, right), _flag_fact(right, "right side"))


def _flagged_later(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """The first turn is logged normally and the second is flagged: the first must be removed too."""
    talk, person = _flagged_talk(stage, rng, new_conv_id(rng)), stage.crowd.anybody(rng)
    first = stage.chat(rng, moment, replace(talk, flagged=False), person=person)
    longer = replace(talk, turns=(*talk.turns, Exchange("And now?", "Nothing new.")))
    later, fact = Moment(moment.day, moment.at + 60), _flag_fact(longer, "later turn")
    return [*first, stage.chat(rng, later, longer, fact, person=person, channel=Channel.CSAM)[-1]]


def _flagged_file(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    grey = rng.randint(60, 200)
    card = PIL.Image.new("RGB", (rng.randint(200, 400), rng.randint(200, 400)), (grey, grey, grey))
    talk = _flagged_talk(stage, rng, stage.images.save(card, moment.era))
    return stage.chat(rng, moment, talk, _flag_fact(talk, "grey card on disk"), channel=Channel.CSAM)


def _flagged_talk(stage: Stage, rng: Random, image: str) -> Talk:
    return replace(stage.talk(rng, upload(image), ["What is this?"]), flagged=True)


def _flag_fact(talk: Talk, detail: str) -> PlantedFact:
    return about("csam_flag", talk, image=talk.image, detail=detail)


LINE_PLANTERS: dict[str, Planter] = {
    "bad_line": planter(*(partial(_spoiled, detail) for detail in SPOILERS), _torn_last_line, eras=EXACT),
    "regenerated": planter(*3 * [_regenerated]),
    "image_reset_same_conv_id": planter(*3 * [_image_reset], eras=EXACT),
    "crosses_midnight": planter(*3 * [_over_midnight], eras=EXACT, needs_morrow=True),
    "stringified_record": planter(*3 * [_stringified], eras=IN_MESSAGES),
    "few_shot_offset": planter(*3 * [_few_shot], eras=EXACT),
    "text_only": planter(*(partial(_text_only, text["prompt"]) for text in texts("text_only"))),
    "user_flag": planter(*3 * [_reported]),
    "named_battle": planter(*3 * [partial(_names_shown, "named_battle", "plain")]),
    "anonymous_revealed": planter(*(partial(_names_shown, "anonymous_revealed", s) for s in 2 * ["h3", "markdown"])),
    "same_model_both_sides": planter(*3 * [_against_itself]),
    "unequal_sides": planter(*3 * [_unequal]),
    "multi_turn_battle": planter(*3 * [_long_battle]),
    "vote_without_chat": planter(*3 * [_vote_alone], eras=IN_MESSAGES),
    "csam_flag": planter(
        partial(_flagged_chat, Channel.CSAM, "csam file"),
        partial(_flagged_chat, Channel.VISION, "normal file"),
        _flagged_right,
        _flagged_later,
        _flagged_file,
        eras=EXACT,
    ),
}
"""Kind -> function that plants it."""
