"""Adapters of compar:IA's published sets: the new one, of a row a turn, and the three older ones.

In: a row of a set. Out: a record of both conversations, of a vote, or of a reaction to one answer. Shapes are those of
the writers at github.com/betagouv/ComparIA: `comparison_to_turns` in utils/dataset/compute.py at 420cb1e, and of the
older sets the queries in utils/dataset/queries.py at 065ea3e and 8646c99 with `record_vote` and `record_reaction` of
the backend then. A row of a raw export that its source marks is a reject (`_require_published`): a further mark is a
line there. Models of the new set may be UUIDs, which `renames` of a policy gives names.
"""

from collections.abc import Mapping

from schemas.items.reject import LineRejected, RejectReason
from tasks.ingest.formats.adapter import FormatAdapter, Record, Row, battle, without_vote
from tasks.ingest.formats.parts import USER, messages_of, role_of
from tasks.ingest.log_line import Place

_WINNERS = {"a_better": "model_a", "b_better": "model_b", "both_good": "tie", "both_bad": "both_bad"}
_NO_VOTE = (None, "idk")
"""Choices of somebody who did not vote, or does not know: the row is a comparison without a vote."""
_MUST_BE = {"archived": False, "contains_pii": False, "pii_analyzed": True, "llm_analyzed": True}
"""Marks of a raw export that say whether a row may be published, where they are there. Null says that nobody looked."""
_MUST_NOT_BE = ("excluded", "contains_spam", "postprocess_failed")
"""Marks that exclude a row where they hold."""
_MUST_BE_EMPTY = ("cohorts", "error")
"""Cohorts of people who were promised that nothing is published, and errors of a server."""


def _require_published(row: Row) -> None:
    """Raises LineRejected for a row that any one of its marks excludes; rows of public exports have no marks."""
    extra = row.get("extra_metadata")
    marks = {**row, **extra} if isinstance(extra, Mapping) else row
    excluding = [name for name, value in _MUST_BE.items() if name in marks and marks[name] is not value]
    excluding += [name for name in _MUST_NOT_BE if marks.get(name) not in (None, False)]
    excluding += [name for name in _MUST_BE_EMPTY if marks.get(name) not in (None, "")]
    if excluding:
        raise LineRejected(RejectReason.EXCLUDED_BY_SOURCE, f"by {excluding[0]}")


def _turn_row(row: Row, place: Place) -> Record:
    """The record of a turn of a comparison: both talks whole, and the vote on the turn, if there is one."""
    _require_published(row)
    choice = row["choice"]
    if choice not in _NO_VOTE and choice not in _WINNERS:
        raise LineRejected(RejectReason.UNKNOWN_WINNER, "not a_better, b_better, both_good, both_bad, idk or null")
    talks = {"conversation_a": row["full_conversation_a"], "conversation_b": row["full_conversation_b"]}
    turn_count = sum(role_of(message) == USER for message in messages_of(row["full_conversation_a"]))
    turn = row["turn"]
    if type(turn) is not int or not 0 <= turn < turn_count:
        raise LineRejected(RejectReason.BAD_REACTION, f"turn: not one of 0 to {turn_count - 1}, the turns of the talk")
    compared = {**row, **talks}
    if choice in _NO_VOTE:
        return without_vote(compared, place, (), id_column="comparison_id")
    metadata = row.get("metadata") or {}
    opinion = {
        "turn": turn + 1,
        "seconds_to_vote": metadata.get("time_to_vote"),
        "categories": metadata.get("categories"),
        "languages": metadata.get("languages"),
    }
    voted = battle({**compared, "winner": _WINNERS[choice]}, place, (), id_column="comparison_id")
    return {**voted, "opinions": [opinion, opinion]}


COMPARIA = FormatAdapter(
    "comparia",
    frozenset({"comparison_id", "turn", "choice", "model_a", "model_b", "full_conversation_a", "full_conversation_b"}),
    _turn_row,
    other_columns=frozenset({"response_a", "response_b"}),
)
COMPARIA_SETS = (COMPARIA,)
