"""Compiled: where the fields and messages of a conversation state stand."""

from tasks.ingest.json_scan import (
    ARRAY,
    ARRAY_END,
    COMMA,
    OBJECT,
    OBJECT_END,
    QUOTE,
    STRANGE,
    Bytes,
    Places,
    after_space,
    after_value,
    member,
    names_table,
    step,
    string_end,
    table_of,
)

STATE_KEYS = ("messages", "conv_id", "model_name", "offset", "has_csam_image")
MESSAGES, CONV_ID, MODEL_NAME, OFFSET, FLAG = range(0, 10, 2)
"""Columns of a state: the first place of each value, or -1, and next to it the one behind."""
FIRST, COUNT, PICTURE, LINE = range(10, 14)
"""Columns of a state: its first message behind the offset, how many there are, its picture, its line."""
STATE_COLUMNS, MESSAGE_COLUMNS = 14, 3
"""Of a message: first place of its text or null, the one behind, and its picture."""
NO_PICTURE, OTHER_PICTURES = -1, -2
"""Else the only picture's 32 hex digits begin there."""
HASH_CHARACTERS = 32
_CONV_ID_MIN, _CONV_ID_MAX, _OFFSET_CHARACTERS_MAX = 8, 64, 4
_HASH = table_of(b"0123456789abcdef")
_CONV_ID = table_of(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-")
_NAMES = names_table(STATE_KEYS)


@step
def after_state(raw: Bytes, at: int, states: Places, state: int, messages: Places, count: int) -> tuple[int, int]:
    """(behind the state or STRANGE, messages so far), the fields written to row `state`."""
    if state >= len(states):
        return STRANGE, count
    first = count
    states[state] = -1
    more = raw[at] == OBJECT
    while more:
        start, key = member(raw, after_space(raw, at + 1), _NAMES, states, state)
        if start < 0:
            return STRANGE, count
        if 2 * key == MESSAGES:
            at, count = _after_messages(raw, start, messages, count)
        else:
            at = after_value(raw, start)
        if at < 0:
            return STRANGE, count
        if key >= 0:
            states[state, 2 * key], states[state, 2 * key + 1] = start, at
        at = after_space(raw, at)
        more = raw[at] == COMMA
    states[state, FIRST], states[state, COUNT] = first, count - first
    usual = raw[at] == OBJECT_END and _is_usual(raw, states, state, messages)
    return at + 1 if usual else STRANGE, count


@step
def _is_usual(raw: Bytes, states: Places, state: int, messages: Places) -> bool:
    """Whether a state has what it needs and no flag; moves its messages behind the offset, and finds their picture."""
    flag, offset = states[state, FLAG], _number(raw, states[state, OFFSET], states[state, OFFSET + 1])
    if flag >= 0 and raw[flag] != ord("n") and raw[flag] != ord("f"):
        return False
    if not _is_conv_id(raw, states[state, CONV_ID], states[state, CONV_ID + 1]):
        return False
    if offset < 0 or offset >= states[state, COUNT]:
        return False
    states[state, FIRST] += offset
    states[state, COUNT] -= offset
    picture = NO_PICTURE
    for place in range(states[state, FIRST], states[state, FIRST] + states[state, COUNT]):
        if messages[place, 2] != NO_PICTURE:
            picture = messages[place, 2] if picture == NO_PICTURE else OTHER_PICTURES
    states[state, PICTURE] = picture
    return True


@step
def _is_conv_id(raw: Bytes, start: int, stop: int) -> bool:
    if start < 0 or raw[start] != QUOTE or not _CONV_ID_MIN <= stop - start - 2 <= _CONV_ID_MAX:
        return False
    for place in range(start + 1, stop - 1):  # noqa: SIM110 (numba has no `all`)
        if not _CONV_ID[raw[place]]:
            return False
    return True


@step
def _number(raw: Bytes, start: int, stop: int) -> int:
    """The number that stands there, 0 where nothing does, or STRANGE."""
    if stop - start > _OFFSET_CHARACTERS_MAX:
        return STRANGE
    value = 0
    for place in range(start, stop):
        if not ord("0") <= raw[place] <= ord("9"):
            return STRANGE
        value = 10 * value + raw[place] - ord("0")
    return value


@step
def _after_messages(raw: Bytes, at: int, messages: Places, count: int) -> tuple[int, int]:
    """(behind the list of [role, content] or STRANGE, messages so far)."""
    more = raw[at] == ARRAY
    while more:
        at = after_space(raw, at + 1)
        if raw[at] != ARRAY or count >= len(messages):
            return STRANGE, count
        at = _after_comma(raw, after_value(raw, after_space(raw, at + 1)))
        at = _after_end(raw, _after_content(raw, at, messages, count) if at >= 0 else STRANGE)
        if at < 0:
            return STRANGE, count
        count += 1
        at = after_space(raw, at)
        more = raw[at] == COMMA
    return at + 1 if raw[at] == ARRAY_END else STRANGE, count


@step
def _after_comma(raw: Bytes, at: int) -> int:
    """Where the next element begins, from behind one; what was strange stays so."""
    at = after_space(raw, at) if at >= 0 else STRANGE
    return after_space(raw, at + 1) if at >= 0 and raw[at] == COMMA else STRANGE


@step
def _after_end(raw: Bytes, at: int) -> int:
    """Behind the list that ends there; what was strange stays so."""
    at = after_space(raw, at) if at >= 0 else STRANGE
    return at + 1 if at >= 0 and raw[at] == ARRAY_END else STRANGE


@step
def _after_content(raw: Bytes, at: int, messages: Places, message: int) -> int:
    """Behind a text or null, or [text or null, pictures]."""
    messages[message, 2] = NO_PICTURE
    if raw[at] != ARRAY:
        return _after_text(raw, at, messages, message)
    at = _after_comma(raw, _after_text(raw, after_space(raw, at + 1), messages, message))
    return _after_end(raw, _after_pictures(raw, at, messages, message) if at >= 0 else STRANGE)


@step
def _after_text(raw: Bytes, at: int, messages: Places, message: int) -> int:
    stop = STRANGE
    if raw[at] == QUOTE:
        quote, _ = string_end(raw, at + 1)
        stop = quote + 1 if quote >= 0 else STRANGE
    elif raw[at] == ord("n"):
        stop = after_value(raw, at)
    messages[message, 0], messages[message, 1] = at, stop
    return stop


@step
def _after_pictures(raw: Bytes, at: int, messages: Places, message: int) -> int:
    """Behind a list of names, of which a single one of the usual form is noted."""
    stop = after_value(raw, at) if raw[at] == ARRAY else STRANGE
    if stop < 0:
        return STRANGE
    name = after_space(raw, at + 1)
    if raw[name] == ARRAY_END:
        return stop
    end = name + 1
    while raw[name] == QUOTE and _HASH[raw[end]]:
        end += 1
    alone = raw[end] == QUOTE and end - name - 1 == HASH_CHARACTERS and after_space(raw, end + 1) == stop - 1
    messages[message, 2] = name + 1 if alone else OTHER_PICTURES
    return stop
