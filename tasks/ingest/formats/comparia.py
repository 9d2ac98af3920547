"""Adapters of compar:IA's published sets: the new one, of a row a turn, and the three older ones.

In: a row of a set. Out: a record of both conversations, of a vote, or of a reaction to one answer. Shapes are those of
the writers at github.com/betagouv/ComparIA: `comparison_to_turns` in utils/dataset/compute.py at 420cb1e, and of the
older sets the queries in utils/dataset/queries.py at 065ea3e and 8646c99 with `record_vote` and `record_reaction` of
the backend then. A row of a raw export that its source marks is a reject; a further mark is a name in one of the
`_MUST_…` below. A further set is a function of its rows, which asks `_require_published` first, and an adapter in
`COMPARIA_SETS`. Models of the new set may be UUIDs: `renames` in a policy says their names.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from schemas.items.reject import LineRejected, RejectReason
from tasks.ingest.formats.adapter import (
    ColumnKind,
    FormatAdapter,
    RowExcluded,
    battle,
    person,
    whole_number,
    without_vote,
)
from tasks.ingest.formats.comparia_tables import COMPARIA_TABLES, REASONS
from tasks.ingest.formats.parts import ASSISTANT, USER, messages_of, role_of
from tasks.ingest.formats.pictures import SourceRow
from tasks.ingest.log_line import Place, Record
from tasks.runtime.json_rows import loads

_WINNERS = {"a_better": "model_a", "b_better": "model_b", "both_good": "tie", "both_bad": "both_bad"}
_NO_VOTE = (None, "idk")
"""Choices of somebody who did not vote, or does not know: the row is a comparison without a vote."""
_PEOPLE = ("visitor_id", "ip")
"""Columns of the visitor's id, or else the address, in the older sets."""
_PRINTED_OBJECT = re.compile(r"\A\s*ModelResponse(?:Stream)?\(|ModelResponseStream\(id=")
"""Text that Python prints of an answer that is still to come."""
_MUST_BE = {"archived": False, "contains_pii": False, "pii_analyzed": True, "llm_analyzed": True}
"""Marks of a raw export -> the value without which a row is a reject, where the export has the mark. Null is another
value: nobody has looked."""
_MUST_NOT_BE = ("excluded", "contains_spam", "postprocess_failed")
"""Marks that make a row a reject, unless they are false or null."""
_MUST_BE_EMPTY = ("cohorts", "error")
"""Cohorts of people who were promised that nothing is published, and errors of a server."""


def _require_published(row: SourceRow, id_column: str) -> None:
    """Raises RowExcluded for a row that any one of its marks excludes; rows of public exports have no marks."""
    extra = row.get("extra_metadata")
    # A mark counts wherever it stands: in a column, or in the metadata of a raw export.
    for marks in (row, extra if isinstance(extra, Mapping) else {}):
        excluding = [name for name, value in _MUST_BE.items() if name in marks and marks[name] is not value]
        excluding += [name for name in _MUST_NOT_BE if marks.get(name) not in (None, False)]
        excluding += [name for name in _MUST_BE_EMPTY if marks.get(name) not in (None, "")]
        if excluding:
            raise RowExcluded(excluding[0], row, id_column)


def _require_answers(*talks: Any) -> None:
    """Raises LineRejected where the server stored an object of its library in place of an answer (their issue #285)."""
    for talk in talks:
        for message in messages_of(talk):
            content = message.get("content")
            if role_of(message) == ASSISTANT and isinstance(content, str) and _PRINTED_OBJECT.search(content):
                raise LineRejected(RejectReason.BAD_MESSAGES, "an answer is a printed object of the server")


def _turn_row(row: SourceRow, place: Place) -> Record:
    """The record of a turn of a comparison: both talks whole, and the vote on the turn, if there is one."""
    _require_published(row, "comparison_id")
    choice = row["choice"]
    if choice not in _NO_VOTE and choice not in _WINNERS:
        raise LineRejected(RejectReason.UNKNOWN_WINNER, "not a_better, b_better, both_good, both_bad, idk or null")
    whole_talks = {"conversation_a": row["full_conversation_a"], "conversation_b": row["full_conversation_b"]}
    turn_count = sum(role_of(message) == USER for message in messages_of(row["full_conversation_a"]))
    turn = whole_number(row["turn"])
    if turn is None or not 0 <= turn < turn_count:
        raise LineRejected(RejectReason.BAD_REACTION, f"turn: not one of 0 to {turn_count - 1}, the turns of the talk")
    _require_answers(*whole_talks.values())
    comparison = {**row, **whole_talks}
    # A vote is an opinion on the answer of each side. Only the database has words about one side alone.
    words = [{"reasons": row.get(f"reasons_{side}"), "comment": row.get(f"comment_{side}")} for side in "ab"]
    if choice in _NO_VOTE:
        record = without_vote(comparison, place, (), id_column="comparison_id")
        return {**record, **_opinions_without_vote([{"turn": turn + 1, **of_side} for of_side in words])}
    metadata = row.get("metadata") or {}
    opinion = {
        "turn": turn + 1,
        "seconds_to_vote": metadata.get("time_to_vote"),
        "categories": metadata.get("categories"),
        "languages": metadata.get("languages"),
    }
    record = battle({**comparison, "winner": _WINNERS[choice]}, place, (), id_column="comparison_id")
    return {**record, "opinions": [{**opinion, **of_side} for of_side in words]}


def _pair_row(row: SourceRow, place: Place) -> Record:
    """The record of a row of an older set: both talks, without a vote."""
    _require_published(row, "conversation_pair_id")
    record = without_vote(_as_pair(row), place, (), id_column="conversation_pair_id")
    return {**record, "ip": person(row, _PEOPLE)}


def _vote_row(row: SourceRow, place: Place) -> Record:
    """The record of a vote on two whole talks, with the reasons and the comment about each.

    Without a chosen model, and where both are not said to be equal, nobody voted: a record of both talks alone.
    """
    _require_published(row, "conversation_pair_id")
    chosen_model = row["chosen_model_name"]
    models = (row["model_a_name"], row["model_b_name"])
    is_equal = _is_true(row["both_equal"])
    opinions = _opinions_of_sides(row)
    if chosen_model is None and not is_equal:
        return {**_pair_row(row, place), **_opinions_without_vote(opinions)}
    if chosen_model is None:
        winner = "tie"
    elif is_equal:
        raise LineRejected(RejectReason.UNKNOWN_WINNER, "both are equal, and one is chosen")
    elif chosen_model in models and models[0] != models[1]:
        winner = "model_a" if chosen_model == models[0] else "model_b"
    else:
        raise LineRejected(RejectReason.UNKNOWN_WINNER, "the chosen model is not one of the two, or is both")
    record = battle({**_as_pair(row), "winner": winner}, place, (), id_column="conversation_pair_id")
    return {**record, "ip": person(row, _PEOPLE), "opinions": opinions}


def _opinions_of_sides(row: SourceRow) -> list[SourceRow]:
    """One opinion a side: on its last turn, because the vote was asked for when both talks had ended."""
    opinions: list[SourceRow] = []
    for side in "ab":
        reasons = [f"{name}{sign}" for name, sign in REASONS.items() if _is_true(row.get(f"conv_{name}_{side}"))]
        comment = row.get(f"conv_comments_{side}")
        answered_turns = sum(
            role_of(message) == ASSISTANT for message in messages_of(_talk(row[f"conversation_{side}"]))
        )
        opinions.append({"turn": answered_turns, "reasons": reasons, "comment": comment})
    return opinions


def _opinions_without_vote(opinions: Sequence[SourceRow]) -> Record:
    """The field of a record with what was said of answers that nobody voted on; none where nothing was said."""
    stated = [opinion if opinion["reasons"] or opinion["comment"] else None for opinion in opinions]
    return {"opinions": stated} if any(stated) else {}


def _reaction_row(row: SourceRow, place: Place) -> Record:
    """The record of a reaction to one answer: its talk so far, and what was pressed and written.

    `msg_index` counts the messages of the talk from 0, instructions included.
    """
    _require_published(row, "conversation_pair_id")
    liked, disliked = _is_true(row["liked"]), _is_true(row["disliked"])
    if liked and disliked:
        raise LineRejected(RejectReason.BAD_REACTION, "both liked and disliked")
    side = _reacted_side(row)
    talk = list(messages_of(_talk(row[f"conversation_{side}"])))
    index = whole_number(row["msg_index"])
    if index is None or not 0 <= index < len(talk):
        raise LineRejected(RejectReason.BAD_REACTION, f"msg_index: not one of 0 to {len(talk) - 1}, the messages")
    if role_of(talk[index]) != ASSISTANT:
        raise LineRejected(RejectReason.BAD_REACTION, "msg_index is that of no answer")
    pair_record = without_vote(_as_pair(row), place, (), id_column="conversation_pair_id")
    is_opinion = liked or disliked  # somebody may write reasons without pressing either
    opinion = {
        "liked": liked if is_opinion else None,
        "turn": sum(role_of(message) == USER for message in talk[:index]),
        "reasons": [f"{name}{sign}" for name, sign in REASONS.items() if _is_true(row.get(name))],
        "comment": row.get("comment"),
    }
    return {
        "type": "chat",
        "model": row[f"model_{side}_name"],
        "state": pair_record["states"]["ab".index(side)],
        "tstamp": pair_record["tstamp"],
        "ip": person(row, _PEOPLE),
        "opinions": [opinion],
    }


def _reacted_side(row: SourceRow) -> str:
    """The side whose answer a reaction is to. Raises LineRejected where the row names neither."""
    matching_sides = [side for side in "ab" if row["refers_to_conv_id"] == row[f"conv_{side}_id"]]
    if len(matching_sides) != 1 or row.get("model_pos") not in (None, matching_sides[0]):
        raise LineRejected(RejectReason.BAD_REACTION, "it refers to neither talk, or to another one than model_pos")
    return matching_sides[0]


def _with_reacted_talk(row: SourceRow, place: Place) -> list[SourceRow]:
    """The row with the messages that its reaction is about in a column of their own, where their parts are counted."""
    return [{**row, "reacted_talk": _talk(row[f"conversation_{_reacted_side(row)}"])}]


def _as_pair(row: SourceRow) -> SourceRow:
    """The row with the columns that `battle` and `without_vote` read."""
    talks = {name: _talk(row[name]) for name in ("conversation_a", "conversation_b")}
    _require_answers(*talks.values())
    return {**row, "model_a": row["model_a_name"], "model_b": row["model_b_name"], **talks}


def _talk(value: Any) -> Any:
    """The messages of a talk, which the files of some exports hold as a text in JSON."""
    return loads(value) if isinstance(value, str) else value


def _is_true(value: Any) -> bool:
    """Whether a column that is true, false or null is true. Raises ValueError for another value."""
    if value is None or value != value or isinstance(value, bool):  # null is NaN in some exports
        return value is True
    raise ValueError("neither true nor false")


_TEXT, _LIST, _FACT = frozenset({ColumnKind.TEXT}), frozenset({ColumnKind.LIST}), frozenset({ColumnKind.OTHER})
_OF_TURNS = FormatAdapter(
    "comparia",
    frozenset({"comparison_id", "turn", "choice", "model_a", "model_b", "full_conversation_a", "full_conversation_b"}),
    _turn_row,
    other_columns=frozenset({"response_a", "response_b"}),
    kinds={
        **dict.fromkeys(("comparison_id", "choice", "model_a", "model_b"), _TEXT),
        **dict.fromkeys(("full_conversation_a", "full_conversation_b"), _LIST),
        "turn": _FACT,
    },
    about="compar:IA's set of a row a turn, also the raw one",
    lacks=("images", "users"),
    database=COMPARIA_TABLES,
)
_PAIR_COLUMNS = frozenset({"conversation_pair_id", "conversation_a", "conversation_b", "model_a_name", "model_b_name"})
_PAIR_KINDS = {
    **dict.fromkeys(("conversation_a", "conversation_b"), _LIST | _TEXT),
    **dict.fromkeys(("model_a_name", "model_b_name"), _TEXT),
}
COMPARIA_SETS = (
    _OF_TURNS,
    FormatAdapter(
        "comparia-conversations",
        _PAIR_COLUMNS,
        _pair_row,
        kinds=_PAIR_KINDS,
        about="compar:IA's older set of conversations: two chats a row",
        lacks=("votes", "images"),
    ),
    FormatAdapter(
        "comparia-votes",
        _PAIR_COLUMNS | {"chosen_model_name", "both_equal"},
        _vote_row,
        kinds={**_PAIR_KINDS, "chosen_model_name": _TEXT, "both_equal": _FACT},
        about="compar:IA's older set of votes, with reasons and comments",
        lacks=("images",),
    ),
    FormatAdapter(
        "comparia-reactions",
        _PAIR_COLUMNS | {"refers_to_conv_id", "conv_a_id", "conv_b_id", "msg_index", "liked", "disliked"},
        _reaction_row,
        unpacked=_with_reacted_talk,
        # Both talks so far stand in the row; the parts of the one that the reaction is about are counted.
        other_columns=frozenset({"conversation_a", "conversation_b"}),
        kinds={**_PAIR_KINDS, **dict.fromkeys(("msg_index", "liked", "disliked"), _FACT)},
        about="compar:IA's older set of reactions to single answers",
        lacks=("votes", "images"),
    ),
)
