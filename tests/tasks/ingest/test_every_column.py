"""Each column of each format, one at a time, is null, absent, or of another type.

Then the row is read without that fact, or is a reject with its place. No row loses a message, a vote or a person
without a word.
"""

import json
from datetime import datetime
from typing import Any

import pytest

from schemas.errors import BadInput
from tasks.ingest.formats import ARENA_LOGS, BUILT_IN
from tasks.ingest.log_files import source_files
from tasks.ingest.read_logs import LogContent
from tests.tasks.ingest.drawn_talks import WRITERS, Row
from tests.tasks.ingest.foreign import put_rows
from tests.tasks.ingest.logs import chat, vote
from tests.tasks.ingest.test_every_part import read, talks_read
from tests.tasks.ingest.test_formats import IMAGE, PICTURED, ROWS
from tests.tasks.ingest.test_kinds_of_files import rows_of_formats

WORD = "heronry"
_ABSENT = object()
NOTHING: dict[str, Any] = {"null": None, "absent": _ABSENT, "empty text": "", "empty list": [], "empty object": {}}
ANOTHER: dict[str, Any] = {"number": 7, "fraction": 0.5, "list": [WORD], "object": {WORD: 1}, "text": WORD}
NAMES_NO_VOTE = {("search-arena", "winner"), ("comparia", "choice"), ("comparia-votes", "chosen_model_name")}
"""(format, column) of which null says that nobody voted."""
ANSWERS = ("response", "choices", "result")
"""Columns of requests without which there is a question alone."""
_ITEM = {"item_id": "c" * 32, "instruction": "What is it?", "images": [IMAGE], "captions": None, "problem": None}
_VOTE = vote("a", "b") | {"reason": "B is worse."}
SETS: dict[str, Row] = {
    **{name: rows[0] for name, rows in rows_of_formats().items()},
    **{name: ROWS[name] for name in PICTURED},
    **{f"{name} drawn": case.write(case.drawn(name, 0.0).talks) for name, case in WRITERS.items()},
    "bench-items": _ITEM, "arena-logs": chat("a"), "arena-logs vote": _VOTE,
}  # fmt: skip
"""Name of a format, and behind a space of a set of it -> a row whose columns are all filled, as far as they are."""


def format_of(name: str) -> str:
    return name.partition(" ")[0].removesuffix("-nested")


def as_json(row: Row) -> Row:
    """The row with times as texts, and without the bytes of pictures."""
    return json.loads(json.dumps(row, default=lambda value: value.isoformat() if type(value) is datetime else None))


def changed(row: Row, column: str, value: Any) -> Row:
    """The row with another value in a column."""
    others = {name: inner for name, inner in row.items() if name != column}
    return others if value is _ABSENT else others | {column: value}


def facts_of(content: LogContent) -> dict[str, list[Any]]:
    """What must not be lost: texts, pictures, votes, persons and words of voters, of each talk."""
    finals = [talk[-1] for talk in talks_read(content)]
    return {
        "texts": sorted(str(seen.texts) for seen in finals),
        "winner": [seen.winner for seen in finals],
        "user": [seen.user_id is not None for seen in finals],
    }


@pytest.mark.parametrize("name", SETS)
def test_a_column_without_a_value_takes_its_own_fact_and_no_other(name):
    row = as_json(SETS[name])
    whole = facts_of(read(row, format_of(name)))
    for column in row:
        for kind, value in NOTHING.items():
            content = read(changed(row, column, value), format_of(name))
            assert bool(content.sightings) != bool(content.rejects), (column, kind)
            if content.rejects:
                assert [reject.line for reject in content.rejects] == [1], (column, kind)
                continue
            facts = facts_of(content)
            is_no_vote = (format_of(name), column) in NAMES_NO_VOTE and value is None
            assert facts["winner"] == whole["winner"] or is_no_vote, (column, kind)
            # a question without its answer, and a text that is empty in the row itself
            is_own_text = column in (*ANSWERS, "prompt", "response_1", "response_2", "instruction", "opening_msg")
            assert facts["texts"] == whole["texts"] or is_own_text, (column, kind)


@pytest.mark.parametrize("name", SETS)
def test_a_value_of_another_type_is_read_as_what_it_says_or_is_a_reject(name):
    row = as_json(SETS[name])
    whole = facts_of(read(row, format_of(name)))
    for column in row:
        without_column = facts_of(read(changed(row, column, _ABSENT), format_of(name)))
        names_user = any(whole["user"]) and without_column["user"] and not any(without_column["user"])
        for kind, value in ANOTHER.items():
            content = read(changed(row, column, value), format_of(name))
            # many rows with one list would be one person
            assert content.rejects or not (names_user and kind in ("list", "object")), (column, kind)
            assert bool(content.sightings) != bool(content.rejects), (column, kind)
            if content.rejects:
                assert [reject.line for reject in content.rejects] == [1], (column, kind)
                continue
            facts = facts_of(content)
            assert facts["winner"] == whole["winner"], (column, kind)
            assert all(is_there for was_there, is_there in zip(whole["user"], facts["user"], strict=True) if was_there)
            unread = any(seen.unread_parts for seen in content.sightings)
            # an object in place of an answer is the error of a call that failed
            is_failed_call = column in ("response", "result") and kind == "object"
            is_said = WORD in str(facts["texts"])
            assert facts["texts"] == whole["texts"] or is_said or unread or is_failed_call, (column, kind)


@pytest.mark.parametrize("name", [name for name in SETS if not name.startswith((*PICTURED, ARENA_LOGS))])
def test_a_file_of_rows_that_lack_a_column_is_read_or_refused_with_its_name(name, tmp_path):
    row = as_json(SETS[name])
    shape = BUILT_IN[format_of(name)]
    for number, column in enumerate(sorted(frozenset().union(*shape.column_sets) & row.keys())):
        for kind, value in {"absent": _ABSENT, **ANOTHER}.items():
            folder = put_rows(tmp_path / f"{number} {kind}", [changed(row, column, value)], "jsonl")
            try:
                source_files(folder, shape.name)
            except BadInput as error:
                says = str(error)
                # where one of several columns is enough, another one of them may be named
                assert "\n" not in says and (column in says or (value is _ABSENT and "lacks" in says)), (column, kind)
