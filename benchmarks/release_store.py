"""A store of any size that waits for its release: taken in, measured, decided and sampled, without any model."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.release_rows import chat_rows, picture_store
from schemas.tables import SIGNALS, TABLES
from tasks.content_id import combined_id, text_id
from tasks.decide.policy_file import load_policy, policy_hash
from tasks.tables import Store, frame_schema

VERSIONS = dict.fromkeys(SIGNALS, "1")
_NOON = datetime(2024, 9, 18, 12, tzinfo=UTC)
_PART = 4_096
_DIMENSIONS = 384
_TOPICS = 40


def decided_store(folder: Path, rows: int) -> Store:
    """`rows` kept conversations of 2 kB of text, each with a picture of 60 KB.

    Of the first 50,000 one in a hundred is in the benchmark.
    """
    store = picture_store(folder, range(rows))
    policy = load_policy("public_release")
    store.write_bytes(f"policies/{policy_hash(policy)}.json", policy.model_dump_json().encode())
    for numbers in (range(rows)[start : start + _PART] for start in range(0, rows, _PART)):
        conversations = _conversations(numbers)
        store.append("conversations", conversations)
        of = {"source": conversations["source"], "line": conversations["line"]}
        _append(store, "sightings", of | {"side": 0, "record_type": "chat"})
        about = {"keep": True, "held": False, "policy": policy.name, "policy_hash": policy_hash(policy)}
        ids = conversations["conversation_id"]
        _append(store, "decisions", about | {"item_kind": "conversation", "item_id": ids})
        documents = conversations["document_id"]
        topic = [number % _TOPICS for number in numbers]
        names = [f"topic {number}" for number in topic]
        _append(store, "topics", {"document_id": documents, "topic": topic, "name": names, "probability": 1.0})
        drawn = conversations.gather_every(100) if numbers.start < 50_000 else conversations[:0]
        of_bench = {"conversation_id": drawn["conversation_id"], "document_id": drawn["document_id"], "topic": 0}
        _append(store, "bench", of_bench)
        for signal, content_ids in _measured(conversations):
            _append(store, f"signals/{signal}", _facts(signal, content_ids))
    return store


def _conversations(numbers: Sequence[int]) -> pl.DataFrame:
    columns: dict[str, list[Any]] = {name: [] for name in frame_schema(TABLES["conversations"].row)}
    for number, row in zip(numbers, chat_rows(numbers).iter_rows(named=True), strict=True):
        turns = [turn | {"text_id": text_id(turn["content"])} for turn in row["conversation"]]
        prompt_id, tstamp = turns[0]["text_id"], _NOON + timedelta(seconds=number)
        document_id = combined_id("document", [prompt_id, *row["image_ids"]])
        values = row | {
            "turns": turns, "prompt_id": prompt_id, "document_id": document_id,
            "null_turns": [], "image_problems": [], "tstamp": tstamp, "day": tstamp.date(), "anonymous": None,
            "voted": False,
            "feedback": [], "source": "2024-09-18-conv.json", "line": number + 1,
        }  # fmt: skip
        for name, column in columns.items():
            column.append(values[name])
    return pl.DataFrame(columns, schema=frame_schema(TABLES["conversations"].row))


def _measured(conversations: pl.DataFrame) -> Iterator[tuple[str, pl.Series]]:
    """(signal, content ids) of what a release reads."""
    texts = conversations["turns"].list.eval(pl.element().struct.field("text_id"))
    for signal in ("tokens", "code"):
        yield signal, texts.explode()
    for signal in ("refusal", "markdown", "named_entities"):
        yield signal, texts.list.last()
    for signal in ("language", "text_embedding"):
        yield signal, conversations["prompt_id"]
    for signal in ("categories", "criteria", "taxonomy"):
        yield signal, conversations["document_id"]


def _facts(signal: str, content_ids: pl.Series) -> dict[str, Any]:
    facts = {"content_id": content_ids, "version": "1", "provider": "none", "measured_at": _NOON}
    if signal == "language":
        return facts | {"language": "en", "confidence": 1.0}
    if signal == "text_embedding":
        drawn = np.random.default_rng(len(content_ids)).normal(size=(len(content_ids), _DIMENSIONS))
        return facts | {"vector": drawn / np.linalg.norm(drawn, axis=1, keepdims=True)}
    values = {"tokens": 300, "is_code": False, "refusal": False, "entities": 3}
    return facts | {
        name: values.get(name, 0 if signal == "markdown" else None) for name in SIGNALS[signal].model_fields
    }


def _append(store: Store, table: str, columns: dict[str, Any]) -> None:
    """Append a part; one value stands for all rows, and a column that is not named is null, or an empty list."""
    schema = frame_schema(TABLES[table].row)
    rows = next(len(values) for values in columns.values() if isinstance(values, pl.Series | list))
    given = {name: columns.get(name, [] if isinstance(kind, pl.List) else None) for name, kind in schema.items()}
    whole = {
        name: values if isinstance(values, pl.Series | list | np.ndarray) and len(values) == rows else [values] * rows
        for name, values in given.items()
    }
    store.append(table, pl.DataFrame(whole, schema=schema))
