"""Lines that must be rejected: truncated, blank, wrong shapes, impossible values, too deeply nested, too long."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

from tasks.demo.log_writer import LogLine
from tasks.demo.problems.plan import EXACT, Planter, Problem
from tasks.demo.records import MIDNIGHT_SECONDS, Moment, chat
from tasks.demo.traffic import Stage

LONG_BYTES = 16 * 1024 * 1024 + 1024
"""More than a state of 50 turns of 30,000 characters can take."""
NESTING = 20_000

Record = dict[str, Any]


def bad_lines(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Each kind of bad line once."""
    for detail, spoil in SPOILERS.items():
        yield Problem(partial(_spoiled, stage, detail, spoil), EXACT)
    yield Problem(partial(_torn_last_line, stage), EXACT)


def _spoiled(stage: Stage, detail: str, spoil: Callable[[Record], bytes], rng: Random, moment: Moment) -> list[LogLine]:
    content = spoil(_record(stage, rng, moment))
    return [LogLine(moment.at, content, facts=({"kind": "bad_line", "detail": detail},))]


def _torn_last_line(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """The server crashed while writing the last line of the day: half a record without a line end."""
    content = json.dumps(_record(stage, rng, moment)).encode()[:200]
    fact = {"kind": "bad_line", "detail": "torn last line"}
    at = moment.day.start + MIDNIGHT_SECONDS - 0.1
    return [LogLine(at, content, facts=(fact,), ended=False)]


def _record(stage: Stage, rng: Random, moment: Moment) -> Record:
    talk = stage.any_talk(rng, moment)
    return chat(talk, moment.era, 1, moment.at - 5, moment.at, stage.crowd.anybody(rng).address)


def _dumped(record: Record) -> bytes:
    return json.dumps(record).encode()


def _with(**values: Any) -> Callable[[Record], bytes]:
    return lambda record: _dumped(record | values)


def _with_state(**values: Any) -> Callable[[Record], bytes]:
    return lambda record: _dumped(record | {"state": record["state"] | values})


def _without(key: str) -> Callable[[Record], bytes]:
    return lambda record: _dumped({name: value for name, value in record.items() if name != key})


def _nested(record: Record) -> bytes:
    inner = b"[" * NESTING + b"]" * NESTING
    return _dumped(record | {"state": 0}).replace(b'"state": 0', b'"state": ' + inner)


def _long(record: Record) -> bytes:
    return _dumped(record | {"padding": "long " * (LONG_BYTES // 5)})


SPOILERS: dict[str, Callable[[Record], bytes]] = {
    "not json": lambda record: b"Traceback (most recent call last):",
    "cut in the middle": lambda record: _dumped(record)[: len(_dumped(record)) // 2],
    "blank": lambda record: b"",
    "spaces": lambda record: b"   \t ",
    "bad bytes": lambda record: _dumped(record).replace(b'"type"', b'"ty\xff\xfepe"'),
    "list": lambda record: _dumped(record).join((b"[", b"]")),
    "no state": _without("state"),
    "state is text": _with(state="see above"),
    "messages are a number": _with_state(messages=7),
    "message of three": _with_state(messages=[["user", "Q", "extra"]]),
    "model is null": _with(model=None),
    "unknown type": _with(type="reveal"),
    "no time": _without("tstamp"),
    "time is text": _with(tstamp="yesterday"),
    "time is not a number": _with(tstamp=float("nan")),
    "time without end": lambda record: _dumped(record | {"tstamp": 0}).replace(b'"tstamp": 0,', b'"tstamp": 1e999,'),
    "time before the arena": _with(tstamp=86_400.0),
    "offset beyond the messages": _with_state(offset=99),
    "conv_id is a path": _with_state(conv_id="../../etc/hostname"),
    "deep nesting": _nested,
    "very long": _long,
}
"""What is wrong -> function that spoils a record that way."""

PLANTERS: dict[str, Planter] = {"bad_line": bad_lines}
"""Kind -> function that plants it."""
