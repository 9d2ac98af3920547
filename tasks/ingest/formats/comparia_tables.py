"""compar:IA's own database: comparisons, turns, messages. Its published set of a row a turn is made of it.

In: records, one a turn, with the messages of the turn. Out: the rows that `comparison_to_turns` writes into the raw set
(utils/dataset/compute.py at 420cb1e), and beside them what the set leaves out: reasons and comments of a vote, and what
tools did.
Tables are those of utils/database/models at c675983 and 1bb2ca4 in github.com/betagouv/ComparIA. Addresses, cookies,
visitors and accounts (`ip`, `session_hash`, `visitor_id`, `anonymous_user_hash`, `user_id`) are not selected.

The day of a record is that of its comparison. Votes, annotations and what an analysis finds change no `updated_at`
(backend/arena/services.py at d4c00bc), so a day's version is made of `xmin`, the transaction that last wrote a row.
"""

import re
from collections.abc import Sequence
from datetime import UTC
from itertools import chain
from typing import Any

from tasks.ingest.formats.database_tables import Columns, ColumnType, DatabaseTables, QueriedRow

REASONS = {
    "useful": "+",
    "complete": "+",
    "creative": "+",
    "clear_formatting": "+",
    "incorrect": "-",
    "superficial": "-",
    "instructions_not_followed": "-",
}
"""Reason -> its sign, of those that the source's code names; a table `vote_tag` may have others, or other signs."""
_SIGNS = {"positive": "+", "negative": "-"}
_MODEL_ID = (ColumnType.TEXT, ColumnType.UUID)
_TEXT, _TRUTH, _TIME, _JSON = (ColumnType.TEXT,), (ColumnType.TRUTH,), (ColumnType.TIME,), (ColumnType.JSON,)
_UUID = (ColumnType.UUID,)
_Tables = dict[str, dict[str, tuple[ColumnType, ...]]]
_SIDES = {
    f"{column}_{side}": types
    for side in "ab"
    for column, types in (("keyword_annotations", _JSON), ("custom_annotation", _TEXT))
}
_COLUMNS: _Tables = {
    "comparison": {
        "id": _UUID,
        "created_at": _TIME,
        "llm_id_a": _MODEL_ID,
        "llm_id_b": _MODEL_ID,
        "cohorts": _TEXT,
        "error": _JSON,
        "llm_analyzed": _TRUTH,
        "contains_pii": _TRUTH,
        "contains_spam": _TRUTH,
        "archived": _TRUTH,
        "categories": _JSON,
        "languages": _JSON,
    },
    "turn": {
        "id": _UUID,
        "comparison_id": _UUID,
        "created_at": _TIME,
        "choice": _TEXT,
        "llm_msg_a_id": _UUID,
        "llm_msg_b_id": _UUID,
        **_SIDES,
    },
    "user_message": {"turn_id": _UUID, "content": _TEXT},
    "llm_message": {"id": _UUID, "content": _TEXT, "updated_at": _TIME},
}
_FURTHER_COLUMNS: _Tables = {
    "turn": {"voted_at": _TIME, "guardrail": _JSON},
    "user_message": {"web_search_results": _JSON},
    "llm_message": {"reasoning_content": _TEXT, "agent_trace": _JSON},
    "llm_data": {"id": _UUID, "human_id": _TEXT},
    "vote_tag": {"key": _TEXT, "sign": _TEXT},
}
_JOINS = """
    FROM comparison c
    JOIN turn t ON t.comparison_id = c.id
    LEFT JOIN user_message u ON u.turn_id = t.id
    LEFT JOIN llm_message a ON a.id = t.llm_msg_a_id
    LEFT JOIN llm_message b ON b.id = t.llm_msg_b_id
"""
_JOINS_OF_MODELS = """
    LEFT JOIN llm_data model_a ON model_a.id::text = c.llm_id_a::text
    LEFT JOIN llm_data model_b ON model_b.id::text = c.llm_id_b::text
"""
_SIGNS_OF_TABLE = "(SELECT jsonb_object_agg(key, sign ORDER BY key) FROM vote_tag)"
_NO_REASON_CHARACTER = re.compile(r"[^a-z0-9_]")
_REASON_CHARACTERS_MAX = 40


def _joins(columns: Columns) -> str:
    return _JOINS + (_JOINS_OF_MODELS if _has_names(columns) else "")


def _has_names(columns: Columns) -> bool:
    """Whether models are numbered in a table of their own, which has their names."""
    return {"id", "human_id"} <= columns.get("llm_data", {}).keys()


def _has_signs(columns: Columns) -> bool:
    """Whether reasons have a table with their signs."""
    return {"key", "sign"} <= columns.get("vote_tag", {}).keys()


def _model(side: str, columns: Columns) -> str:
    """The name of a side's model, or its id where it has none."""
    model_id = f"c.llm_id_{side}::text"
    return f"coalesce(model_{side}.human_id, {model_id})" if _has_names(columns) else model_id


def _days(columns: Columns) -> str:
    models = ", ".join(_model(side, columns) for side in "ab")
    signs = f", {_SIGNS_OF_TABLE}" if _has_signs(columns) else ""
    return f"""
    -- a row is one day: its turns, and a sum over hashes of what last wrote each record, and of names and signs
    SELECT
        c.created_at::date AS day,
        count(*) AS row_count,
        sum(
            hashtextextended(concat_ws(' ', t.id, c.xmin, t.xmin, u.xmin, a.xmin, b.xmin, {models}{signs}), 0)
        )::text AS version
    {_joins(columns)}
    GROUP BY 1
    ORDER BY 1
    """


def _records(columns: Columns) -> str:
    def optional(table: str, column: str, expression: str) -> str:
        return expression if column in columns.get(table, {}) else "NULL"

    messages = ",\n        ".join(
        f"{side}.content AS content_{side}, {side}.updated_at AS answered_at_{side},"
        f" {optional('llm_message', 'reasoning_content', f'{side}.reasoning_content')} AS reasoning_{side},"
        f" {optional('llm_message', 'agent_trace', f'{side}.agent_trace')} AS trace_{side},"
        f" {_model(side, columns)} AS model_{side},"
        f" t.keyword_annotations_{side} AS reasons_{side}, t.custom_annotation_{side} AS comment_{side}"
        for side in "ab"
    )
    signs = _SIGNS_OF_TABLE if _has_signs(columns) else "NULL"
    return f"""
    -- a row is one turn of a comparison with its messages; those of a comparison follow each other in their order
    SELECT
        c.id AS comparison_id, c.created_at, c.cohorts, c.error, c.llm_analyzed, c.contains_pii, c.contains_spam,
        c.archived, c.categories, c.languages, t.choice,
        {optional("turn", "voted_at", "t.voted_at")} AS voted_at,
        {optional("turn", "guardrail", "t.guardrail")} AS guardrail,
        u.content AS typed,
        {optional("user_message", "web_search_results", "u.web_search_results")} AS search_results,
        {messages},
        {signs} AS signs
    {_joins(columns)}
    WHERE c.created_at >= $1::date AND c.created_at < $2::date
    ORDER BY c.created_at, c.id, t.created_at, t.id
    """


def rows_of_comparison(records: Sequence[QueriedRow]) -> list[dict[str, Any]]:
    """The rows, one a turn, of all turns of a comparison in order."""
    talks = {side: list(chain.from_iterable(_messages(record, side) for record in records)) for side in "ab"}
    rows = []
    for turn, record in enumerate(records):
        marks = ("cohorts", "error", "llm_analyzed", "contains_pii", "contains_spam", "archived")
        row = {
            "comparison_id": str(record["comparison_id"]),
            "turn": turn,
            "choice": record["choice"],
            "timestamp": record["created_at"],
            "guardrail": record["guardrail"],
            "metadata": {
                "time_to_vote": _seconds_to_vote(record),
                "categories": record["categories"],
                "languages": record["languages"],
            },
            **{mark: record[mark] for mark in marks},
        }
        for side in "ab":
            row |= {
                f"model_{side}": record[f"model_{side}"],
                f"full_conversation_{side}": talks[side],
                f"reasons_{side}": _reasons(record, side),
                f"comment_{side}": record[f"comment_{side}"],
            }
        rows.append(row)
    return rows


def _messages(record: QueriedRow, side: str) -> list[dict[str, Any]]:
    """The user's message of a turn, and what a side answered, with the work of tools between them."""
    typed = record["typed"]
    results = [result.get("content") or "" for result in record["search_results"] or []]
    question = {"role": "user", "content": "\n\n".join([typed or "", *results]) if results else typed}
    messages: list[dict[str, Any]] = [question | {"user_content": typed}]
    texts_before_tool: list[str] = []
    for event in record[f"trace_{side}"] or []:
        if event.get("type") == "intermediate_content":
            texts_before_tool.append(event.get("content") or "")
        elif event.get("type") == "tool_call":
            text = "\n\n".join(texts_before_tool) or None
            messages.append({"role": "assistant", "content": text, "tool_calls": [{"name": event.get("name")}]})
            texts_before_tool = []
        elif event.get("type") == "tool_result":
            messages.append({"role": "tool", "content": event.get("content") or "nothing"})
    answer = record[f"content_{side}"]
    if answer is not None:
        text = "\n\n".join([*texts_before_tool, answer])
        messages.append({"role": "assistant", "content": text, "reasoning_content": record[f"reasoning_{side}"]})
    return messages


def _seconds_to_vote(record: QueriedRow) -> float | None:
    """Seconds from the last change of both answers to the vote; None without a vote, or with one answer."""
    times = [record[name] for name in ("voted_at", "answered_at_a", "answered_at_b")]
    if None in times:
        return None
    # Columns with and without a zone may stand in one database; the connection is in UTC.
    voted_at, answered_at_a, answered_at_b = (time if time.tzinfo else time.replace(tzinfo=UTC) for time in times)
    return float((voted_at - max(answered_at_a, answered_at_b)).total_seconds())


def _reasons(record: QueriedRow, side: str) -> list[str]:
    """Reasons about a side's answer with their sign; without one where nobody knows it."""
    in_table = record["signs"] or {}
    signs = REASONS | {key: _SIGNS[sign] for key, sign in in_table.items() if sign in _SIGNS}
    reasons = []
    for key in record[f"reasons_{side}"] or []:
        word = _NO_REASON_CHARACTER.sub("_", key.lower())
        word = word if word[:1].isalpha() else f"tag_{word}"
        reasons.append(f"{word[:_REASON_CHARACTERS_MAX]}{signs.get(key, '')}")
    return reasons


COMPARIA_TABLES = DatabaseTables(
    table="comparison",
    columns=_COLUMNS,
    further_columns=_FURTHER_COLUMNS,
    days=_days,
    records=_records,
    key="comparison_id",
    rows=rows_of_comparison,
)
