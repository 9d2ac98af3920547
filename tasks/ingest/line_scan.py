"""Compiled: where the fields of many log lines stand, without making a Python object of any.

Only lines of the usual shape are understood, which are nearly all: what `log_line.py` would reject, quarantine or
think about is left to it. Values are places in the bytes; what they mean is decided once for all that are equal.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.conversation import RecordType
from tasks.ingest.json_scan import (
    ARRAY,
    ARRAY_END,
    COMMA,
    LINE_END,
    OBJECT,
    OBJECT_END,
    QUOTE,
    STRANGE,
    Bytes,
    Flags,
    Places,
    after_space,
    after_value,
    loop,
    member,
    name_at,
    names_table,
    same,
    step,
)
from tasks.ingest.state_scan import CONV_ID, COUNT, FIRST, LINE, MESSAGE_COLUMNS, MODEL_NAME, STATE_COLUMNS, after_state

RECORD_KEYS = ("type", "tstamp", "ip", "model", "models", "images", "state", "states", "has_csam_image")
KINDS = tuple(kind.value for kind in RecordType)
TYPE, TSTAMP, IP, MODEL, MODELS, IMAGES, STATE, STATES, FLAG = range(0, 18, 2)
"""Columns of a line: the first place of each value, or -1, and next to it the one behind."""
SIDES, KIND = 18, 19
"""Columns of a line: how many states it has, 0 when it is not understood; the place of its type in KINDS."""
_MESSAGE_BYTES = 24
"""Fewer bytes a message than any real log has; lines beyond are not understood."""
_NAMES, _KINDS = names_table(RECORD_KEYS), names_table(KINDS)
_TWO_SIDED = np.array([kind not in ("chat", "upvote", "downvote", "flag") for kind in KINDS])


class Scan(NamedTuple):
    """What is found; the columns are named above and in `state_scan.py`."""

    lines: Places
    """int64 (lines, 20)."""
    states: Places
    """int64 (states, 14): those of lines that are understood, in order."""
    messages: Places
    """int64 (any, 3)."""


def scan(content: Bytes, starts: Places) -> Scan:
    """Scan the lines that begin at `starts`, int64 (lines + 1,); `content` are Python bytes, which a byte 0 follows."""
    count = len(starts) - 1
    lines = np.full((count, len(RECORD_KEYS) * 2 + 2), -1)
    states = np.empty((2 * count, STATE_COLUMNS), np.int64)
    messages = np.empty((len(content) // _MESSAGE_BYTES, MESSAGE_COLUMNS), np.int64)
    states_found, messages_found = _scan_lines(content, starts, lines, states, messages)
    return Scan(lines, states[:states_found], messages[:messages_found])


def repeated(content: Bytes, found: Scan, following: Places) -> npt.NDArray[np.bool_]:
    """Bool (states,): whether the state `following` it, int64 (states,), -1 for none, begins with all its messages."""
    repeats = np.empty(len(found.states), np.bool_)
    _compare_states(content, found.states, found.messages, following, repeats)
    return repeats


@loop
def _scan_lines(raw: Bytes, starts: Places, lines: Places, states: Places, messages: Places) -> tuple[int, int]:
    """(states, messages) of the lines that are understood."""
    state, message = 0, 0
    for line in range(len(starts) - 1):
        at, more, more_messages = _after_record(raw, starts[line], lines, line, states, state, messages, message)
        ended = at >= 0 and at + (raw[at] == LINE_END) == starts[line + 1]
        usual = ended and _is_usual(raw, lines, line, states, state, more - 1)
        lines[line, SIDES] = more - state if usual else 0
        if usual:
            for each in range(state, more):
                states[each, LINE] = line
            state, message = more, more_messages
    return state, message


@loop
def _compare_states(raw: Bytes, states: Places, messages: Places, following: Places, repeats: Flags) -> None:
    for state in range(len(states)):
        after = following[state]
        repeats[state] = after >= 0 and states[state, COUNT] <= states[after, COUNT]
        place = 0
        while repeats[state] and place < states[state, COUNT]:
            one, other = states[state, FIRST] + place, states[after, FIRST] + place
            repeats[state] = same(raw, messages[one, 0], messages[one, 1], messages[other, 0], messages[other, 1])
            place += 1


@step
def _after_record(
    raw: Bytes, at: int, lines: Places, line: int, states: Places, state: int, messages: Places, message: int
) -> tuple[int, int, int]:
    """(behind the record of a line or STRANGE, states so far, messages so far)."""
    at = after_space(raw, at)
    more = raw[at] == OBJECT
    while more:
        start, key = member(raw, after_space(raw, at + 1), _NAMES, lines, line)
        if start < 0:
            return STRANGE, state, message
        if 2 * key == STATE:
            at, message = after_state(raw, start, states, state, messages, message)
            state += 1
        elif 2 * key == STATES:
            at, message = _after_states(raw, start, states, state, messages, message)
            state += 2
        else:
            at = after_value(raw, start)
        if at < 0:
            return STRANGE, state, message
        if key >= 0:
            lines[line, 2 * key], lines[line, 2 * key + 1] = start, at
        at = after_space(raw, at)
        more = raw[at] == COMMA
    return after_space(raw, at + 1) if raw[at] == OBJECT_END else STRANGE, state, message


@step
def _after_states(raw: Bytes, at: int, states: Places, state: int, messages: Places, message: int) -> tuple[int, int]:
    """(behind the list of two states or STRANGE, messages so far)."""
    for side in range(2):
        if raw[at] != (COMMA if side else ARRAY):
            return STRANGE, message
        at, message = after_state(raw, after_space(raw, at + 1), states, state + side, messages, message)
        if at < 0:
            return STRANGE, message
        at = after_space(raw, at)
    return at + 1 if raw[at] == ARRAY_END else STRANGE, message


@step
def _is_usual(raw: Bytes, lines: Places, line: int, states: Places, left: int, right: int) -> bool:
    """Whether a record has a type and a time, and the states and names that its type needs."""
    start, stop = lines[line, TYPE], lines[line, TYPE + 1]
    kind = name_at(raw, start + 1, stop - 1, _KINDS) if start >= 0 and raw[start] == QUOTE else STRANGE
    lines[line, KIND] = kind
    if kind < 0 or lines[line, TSTAMP] < 0 or lines[line, FLAG] >= 0:
        return False
    two = _TWO_SIDED[kind]
    if (lines[line, STATE] >= 0) == two or (lines[line, STATES] >= 0) != two:
        return False
    if not two:
        return bool(lines[line, MODEL] >= 0)
    named = states[left, MODEL_NAME] >= 0 and states[right, MODEL_NAME] >= 0 and lines[line, MODELS] >= 0
    ids = states[left, CONV_ID], states[left, CONV_ID + 1], states[right, CONV_ID], states[right, CONV_ID + 1]
    return bool(named and not same(raw, ids[0], ids[1], ids[2], ids[3]))
