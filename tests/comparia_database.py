"""compar:IA's database with the comparisons of a drawn set (`tests/comparia.py`); people and addresses are invented.

The tables are those that the migrations of github.com/betagouv/ComparIA leave (utils/database/alembic at c675983 and
1bb2ca4), with the columns that a reader may want and those that it must not touch. `OLDER` has them as the first
migration (09abb45aa086 at f6a0b309) made them: models by name, and no time of a vote.
"""

import asyncio
import json
from datetime import timedelta
from itertools import groupby
from typing import Any
from uuid import UUID, uuid5

import asyncpg

from tests.comparia import Row
from tests.postgres_server import PostgresServer

ADDRESS, COOKIE, VISITOR, ACCOUNT = "203.0.113.77", "cookie-5fd2", "visitor-9c41", "account-77ab"
"""What no store may hold."""
_NAMES = UUID(int=7)
TABLES = """
DROP SCHEMA public CASCADE;
CREATE SCHEMA public;
CREATE TABLE llm_data (id uuid PRIMARY KEY, human_id varchar NOT NULL UNIQUE, name varchar NOT NULL);
CREATE TABLE vote_tag (key varchar PRIMARY KEY, sign varchar NOT NULL, labels jsonb);
CREATE TABLE comparison (
    id uuid PRIMARY KEY, created_at timestamp NOT NULL, updated_at timestamp NOT NULL, session_hash varchar,
    ip varchar NOT NULL, visitor_id varchar, anonymous_user_hash varchar, cohorts varchar, mode varchar NOT NULL,
    custom_models_selection jsonb, llm_id_a uuid NOT NULL, llm_id_b uuid NOT NULL, system_msg_a varchar,
    system_msg_b varchar, error jsonb, llm_analyzed boolean, contains_pii boolean, contains_spam boolean,
    short_summary varchar, keywords jsonb, categories jsonb, languages jsonb, archived boolean,
    archived_reason varchar, archived_at timestamp
);
CREATE TABLE llm_message (
    id uuid PRIMARY KEY, role varchar NOT NULL, created_at timestamp NOT NULL, responded_at timestamp NOT NULL,
    updated_at timestamp NOT NULL, content varchar NOT NULL, reasoning_content varchar, tokens integer NOT NULL,
    agent_trace jsonb, agent_stop_reason varchar
);
CREATE TABLE turn (
    id uuid PRIMARY KEY, comparison_id uuid NOT NULL REFERENCES comparison, created_at timestamp NOT NULL,
    updated_at timestamp NOT NULL, choice varchar, voted_at timestamp, guardrail jsonb,
    llm_msg_a_id uuid REFERENCES llm_message, keyword_annotations_a jsonb NOT NULL, custom_annotation_a varchar,
    llm_msg_b_id uuid REFERENCES llm_message, keyword_annotations_b jsonb NOT NULL, custom_annotation_b varchar
);
CREATE INDEX turn_comparison ON turn (comparison_id);
CREATE TABLE user_message (
    id uuid PRIMARY KEY, created_at timestamp NOT NULL, role varchar NOT NULL, content varchar NOT NULL,
    web_search_results jsonb, turn_id uuid UNIQUE REFERENCES turn
);
"""
OLDER = """
DROP TABLE llm_data, vote_tag;
ALTER TABLE comparison ALTER llm_id_a TYPE varchar USING llm_id_a::text;
ALTER TABLE comparison ALTER llm_id_b TYPE varchar USING llm_id_b::text;
ALTER TABLE comparison DROP anonymous_user_hash, DROP system_msg_a, DROP system_msg_b;
ALTER TABLE turn DROP voted_at, DROP guardrail;
ALTER TABLE user_message DROP web_search_results;
ALTER TABLE llm_message DROP agent_trace, DROP agent_stop_reason;
"""


def fill(server: PostgresServer, rows: list[Row], older: bool = False) -> None:
    """Make the tables anew, with the comparisons of a raw set."""
    server.run(TABLES + (OLDER if older else ""))
    insert(server, rows, older)


def insert(server: PostgresServer, rows: list[Row], older: bool = False) -> None:
    """Add the comparisons of a raw set."""
    asyncio.run(_insert(server.address, rows, older))


def model_id(name: str) -> UUID:
    """The id of a model in llm_data."""
    return uuid5(_NAMES, name)


async def _insert(address: str, rows: list[Row], older: bool) -> None:
    connection = await asyncpg.connect(address)
    records: dict[str, list[dict[str, Any]]] = {}
    for _, turns in groupby(rows, key=lambda row: row["comparison_id"]):
        for table, values in _records(list(turns), older):
            records.setdefault(table, []).append(values)
    for table, all_values in records.items():
        names = list(all_values[0])
        marks = ", ".join(f"${number}" for number in range(1, len(names) + 1))
        conflict = " ON CONFLICT DO NOTHING" if table == "llm_data" else ""
        statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks}){conflict}"
        await connection.executemany(statement, [tuple(values[name] for name in names) for values in all_values])
    await connection.close()


def _records(rows: list[Row], older: bool) -> list[tuple[str, dict[str, Any]]]:
    """(table, values) of one comparison, in an order that keys allow."""
    first = rows[0]
    comparison_id = UUID(first["comparison_id"])
    at = first["timestamp"].replace(tzinfo=None)
    marks = first.get("extra_metadata") or {}
    models = {side: first[f"model_{side}"] for side in "ab"}
    metadata = first["metadata"]
    records: list[tuple[str, dict[str, Any]]] = []
    if not older:
        for name in models.values():
            records.append(("llm_data", {"id": model_id(name), "human_id": name, "name": name.title()}))
    records.append(
        (
            "comparison",
            {
                "id": comparison_id,
                "created_at": at,
                "updated_at": at,
                "session_hash": COOKIE,
                "ip": ADDRESS,
                "visitor_id": VISITOR,
                "mode": "random",
                **{f"llm_id_{side}": name if older else model_id(name) for side, name in models.items()},
                "cohorts": marks.get("cohorts"),
                "error": json.dumps(marks.get("error")),
                **{
                    name: marks.get(name, name == "llm_analyzed")
                    for name in ("llm_analyzed", "contains_pii", "contains_spam", "archived")
                },
                "categories": json.dumps(metadata["categories"]),
                "languages": json.dumps(metadata["languages"]),
                **({} if older else {"anonymous_user_hash": ACCOUNT}),
            },
        )
    )
    for row in rows:
        records += _records_of_turn(row, comparison_id, older)
    return records


def _records_of_turn(row: Row, comparison_id: UUID, older: bool) -> list[tuple[str, dict[str, Any]]]:
    turn_id = UUID(row["response_id"])
    at = row["timestamp"].replace(tzinfo=None) + timedelta(minutes=row["turn"])
    answered = at + timedelta(seconds=3)
    records: list[tuple[str, dict[str, Any]]] = []
    sides: dict[str, Any] = {}
    for side in "ab":
        _, *answers = row[f"response_{side}"]
        sides |= {f"llm_msg_{side}_id": None, f"keyword_annotations_{side}": json.dumps([])}
        for answer in answers:
            message_id = uuid5(turn_id, side)
            sides[f"llm_msg_{side}_id"] = message_id
            records.append(
                (
                    "llm_message",
                    {
                        "id": message_id,
                        "role": "assistant",
                        "created_at": at,
                        "responded_at": at,
                        "updated_at": answered,
                        "content": answer["content"],
                        "reasoning_content": answer["reasoning_content"],
                        "tokens": 12,
                    },
                )
            )
    seconds = row["metadata"]["time_to_vote"]
    voted = {} if older else {"voted_at": None if seconds is None else answered + timedelta(seconds=seconds)}
    turn = {"id": turn_id, "comparison_id": comparison_id, "created_at": at, "updated_at": at, "choice": row["choice"]}
    records.append(("turn", turn | sides | voted))
    question = row["response_a"][0]
    searched = question["content"].removeprefix(question["user_content"]).strip()
    results = [{"name": "A page", "url": "https://example.org", "content": searched}] if searched else None
    found = {} if older else {"web_search_results": json.dumps(results)}
    user = {"id": uuid5(turn_id, "user"), "created_at": at, "role": "user", "content": question["user_content"]}
    records.append(("user_message", user | {"turn_id": turn_id} | found))
    return records
