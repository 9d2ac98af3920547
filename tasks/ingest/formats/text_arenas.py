"""Adapters of published sets of texts: chats of WildChat, and votes of which each side is in columns of its own.

In: rows of one set. Out: rows with the columns of `chat` or `battle`, as `FormatAdapter.unpacked` gives them. The
columns and types are those of the cards named at each adapter; another set of this kind is a further adapter here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from schemas.items.reject import LineRejected, RejectReason
from schemas.items.test_sets import TEST_SET_MARK
from tasks.ingest.formats.adapter import (
    ColumnKind,
    FormatAdapter,
    battle,
    chat,
    is_stated,
    text_of_name,
    whole_number,
    without_vote,
)
from tasks.ingest.formats.beside_votes import FACTS_OF_VOTES, with_facts_of_vote
from tasks.ingest.formats.parts import ASSISTANT, USER
from tasks.ingest.formats.pictures import SourceRow
from tasks.ingest.log_line import Place, Record
from tasks.runtime.json_rows import loads
from tasks.storage.content_id import text_id

_TEXT = frozenset({ColumnKind.TEXT})
_LIST = frozenset({ColumnKind.LIST})
_TEXT_OR_LIST = _TEXT | _LIST
_NO_EXTRAS = ("images", "users")


def _votes(row: SourceRow, place: Place) -> Record:
    return with_facts_of_vote(battle(row, place, (), id_column="question_id"), row)


def _chats(row: SourceRow, place: Place) -> Record:
    return chat(row, place, ())


_WINNER_COLUMNS = {"winner_model_a": "model_a", "winner_model_b": "model_b", "winner_tie": "tie"}
_YES, _NO = frozenset({"1", "1.0", "true"}), frozenset({"0", "0.0", "false"})


def _human_preference_55k(row: SourceRow, place: Place) -> list[SourceRow]:
    """One vote: three columns of 0 and 1, of which exactly one is 1, and lists of texts as JSON.

    `winner_tie` stands for both ties of the arena, so it is a tie here.
    """
    conversations = {
        f"conversation_{side}": _taking_turns(_texts(row["prompt"]), _texts(row[f"response_{side}"])) for side in "ab"
    }
    row_id = f"55k-{text_of_name(row['id'])}" if is_stated(row["id"]) else None
    identity = {"question_id": row_id, "model_a": row["model_a"], "model_b": row["model_b"]}
    return [{**identity, "winner": _one_winner(row), **conversations}]


def _one_winner(row: SourceRow) -> str:
    values = {winner: str(row[column]).strip().lower() for column, winner in _WINNER_COLUMNS.items()}
    if not _YES.union(_NO).issuperset(values.values()):
        raise LineRejected(RejectReason.UNKNOWN_WINNER, "a column of the winner is neither 0 nor 1")
    winners = [winner for winner, value in values.items() if value in _YES]
    if len(winners) != 1:
        evidence = "no winner and no tie" if not winners else f"{len(winners)} of model_a, model_b and tie have won"
        raise LineRejected(RejectReason.UNKNOWN_WINNER, evidence)
    return winners[0]


def _texts(value: Any) -> list[Any]:
    """A list of texts and nulls, or the JSON of one."""
    try:
        texts = loads(value) if isinstance(value, str) else value
    except orjson.JSONDecodeError:
        raise LineRejected(RejectReason.BAD_MESSAGES, "a text that is not the JSON of a list") from None
    if not isinstance(texts, list) or any(text is not None and not isinstance(text, str) for text in texts):
        raise LineRejected(RejectReason.BAD_MESSAGES, "not a list of texts")
    return texts


def _taking_turns(prompts: Sequence[Any], answers: Sequence[Any]) -> list[SourceRow]:
    if len(prompts) != len(answers):
        raise LineRejected(RejectReason.BAD_MESSAGES, f"{len(prompts)} prompts and {len(answers)} answers")
    messages: list[SourceRow] = []
    for prompt, answer in zip(prompts, answers, strict=True):
        messages.append({"role": USER, "content": prompt})
        messages.append({"role": ASSISTANT, "content": answer})
    return messages


HUMAN_PREFERENCE_55K = FormatAdapter(
    "human-preference-55k",
    frozenset({"id", "model_a", "model_b", "prompt", "response_a", "response_b", *_WINNER_COLUMNS}),
    _votes,
    unpacked=_human_preference_55k,
    kinds=dict.fromkeys(("prompt", "response_a", "response_b"), _TEXT_OR_LIST),
    about="arena-human-preference-55k (train.csv of Kaggle's LMSYS competition)",
    lacks=(*_NO_EXTRAS, "times"),
)
"""Columns: openai/mle-bench, mlebench/competitions/lmsys-chatbot-arena/description.md, and the names as readers of
train.csv print them (`winner_tie`, not `winner_model_tie`). `prompt` and `response_[a/b]` are JSON lists of texts, one
each turn."""


def _ppe(row: SourceRow, place: Place) -> list[SourceRow]:
    """One vote on one answer each. Its id begins with TEST_SET_MARK: by its card the set is not for training."""
    given_id = text_of_name(row["question_id"]) if is_stated(row["question_id"]) else f"{place.source}:{place.line}"
    plain_id = given_id if given_id.isalnum() and given_id.isascii() and len(given_id) <= 40 else text_id(given_id)
    conversations = {
        f"conversation_{side}": _taking_turns([row["prompt"]], [row[f"response_{number}"]])
        for side, number in (("a", 1), ("b", 2))
    }
    identity = {name: row[name] for name in ("model_a", "model_b", "winner")}
    return [{"question_id": f"{TEST_SET_MARK}ppe-{plain_id}", **identity, **conversations, **_facts(row)}]


def _facts(row: SourceRow) -> SourceRow:
    """The columns of a row that say something beside its vote."""
    return {name: row[name] for name in FACTS_OF_VOTES if name in row}


PPE = FormatAdapter(
    "ppe-human-preference",
    frozenset({"question_id", "model_a", "model_b", "winner", "prompt", "response_1", "response_2"}),
    _votes,
    unpacked=_ppe,
    kinds=dict.fromkeys(("prompt", "response_1", "response_2"), _TEXT),
    about="PPE-Human-Preference-V1, a test set: no training export takes its rows",
    lacks=(*_NO_EXTRAS, "times"),
)
"""Columns: README.md of lmarena-ai/PPE-Human-Preference-V1 on the Hub (29623c5): all texts, and one split, test."""


def _wildchat(row: SourceRow, place: Place) -> list[SourceRow]:
    """One chat. `hashed_ip`, which the set has in place of an address, is its person; messages keep role and content.

    What else a message has is the set's own: language, country, headers of the browser, flags and counts of tokens.
    Chats of equal texts share a `conversation_hash`; the `turn_identifier` of the first turn tells them apart.
    """
    messages = [
        {"role": message["role"], "content": message["content"]}
        if message.keys() <= _WILDCHAT_KEYS
        else {name: value for name, value in message.items() if name not in _WILDCHAT_FACTS}
        for message in row["conversation"]
    ]
    person = row.get("hashed_ip")
    if not person:
        person = next(filter(None, (message.get("hashed_ip") for message in row["conversation"])), None)
    chat_id = row["conversation_hash"] if is_stated(row["conversation_hash"]) else None
    turn = whole_number(row["conversation"][0].get("turn_identifier")) if row["conversation"] else None
    return [
        {
            "conversation_id": chat_id if chat_id is None or turn is None else f"{chat_id}-{turn}",
            "model": row["model"],
            "conversation": messages,
            "user_id": person,
            "timestamp": row.get("timestamp"),
        }
    ]


_WILDCHAT_FACTS = frozenset(
    {
        "country", "created", "hashed_ip", "header", "language", "openai_id", "redacted", "state", "system_fingerprint",
        "temperature", "timestamp", "token_counter", "top_p", "toxic", "turn_identifier", "usage",
    }
)  # fmt: skip
"""Keys of a message that hold no part of it."""
_WILDCHAT_KEYS = _WILDCHAT_FACTS | {"role", "content"}

WILDCHAT = FormatAdapter(
    "wildchat",
    frozenset({"conversation_hash", "model", "conversation"}),
    _chats,
    unpacked=_wildchat,
    kinds={"conversation_hash": _TEXT, "conversation": _LIST},
    facts=_WILDCHAT_FACTS - {"hashed_ip", "turn_identifier"},
    about="WildChat-1M and WildChat-4.8M",
    lacks=("votes", "images"),
)
"""Columns: README.md of allenai/WildChat-1M-Full (cc177f1) and allenai/WildChat-4.8M on the Hub."""


def _search_arena(row: SourceRow, place: Place) -> list[SourceRow]:
    """One vote, or a comparison on which nobody voted. The metadata has the arena's own id of a conversation."""
    metadata = row.get("system_a_metadata")
    conversation_id = metadata.get("conv_id") if isinstance(metadata, Mapping) else None
    facts = {"judge": row.get("judge"), "timestamp": row.get("timestamp"), **_facts(row)}
    identity = {name: row[name] for name in ("model_a", "model_b", "winner")}
    conversations = {f"conversation_{side}": row[f"messages_{side}"] for side in "ab"}
    return [{"question_id": conversation_id, **identity, **conversations, **facts}]


def _search_record(row: SourceRow, place: Place) -> Record:
    if row["winner"] is not None:
        return _votes(row, place)
    return without_vote(row, place, (), id_column="question_id")


SEARCH_ARENA = FormatAdapter(
    "search-arena",
    frozenset({"model_a", "model_b", "winner", "messages_a", "messages_b"}),
    _search_record,
    unpacked=_search_arena,
    kinds={"messages_a": _LIST, "messages_b": _LIST},
    about="search-arena-24k; a row without a winner is two chats",
    lacks=("images",),
)
"""Columns: the viewer of a copy of lmarena-ai/search-arena-24k on the Hub (IBRAHIM1990/search-arena-24k). What models
did to search is in `system_[a/b]_metadata`, whose messages repeat those of the row; it is not read."""

TEXT_ARENAS = (HUMAN_PREFERENCE_55K, PPE, WILDCHAT, SEARCH_ARENA)
