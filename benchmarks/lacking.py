"""Which texts lack a signal, of a store of a million conversations with four texts each, half of them measured.

`python -m benchmarks.lacking N` prints a line of JSON. `peak_mb` is the greatest memory of a process that only asks,
`base_mb` that of the process before it asks.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.release_store import VERSIONS
from schemas.signals import MeasuredOn
from schemas.tables import TABLES
from tasks.storage.queries.texts import ConversationForm, Texts, lacking_texts
from tasks.storage.tables import Store, frame_schema

CONVERSATIONS, TEXTS_EACH, PART_ROWS = 1_000_000, 4, 16_384
TEXT_CHARACTERS = 200


def run(conversations: int = CONVERSATIONS) -> list[dict[str, Any]]:
    """One row; the store is written by this process, and asked by one of its own."""
    with tempfile.TemporaryDirectory() as folder:
        _fill(Store.open(folder), conversations)
        command = [sys.executable, "-m", "benchmarks.lacking", "--ask", folder]
        answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    row = {"bench": "texts without a signal", "n": conversations} | answer
    print(json.dumps(row), flush=True)
    return [row]


def _fill(store: Store, conversations: int) -> None:
    """Write conversations, and the number of tokens of every second text."""
    for start in range(0, conversations, PART_ROWS):
        numbers = np.arange(start, min(start + PART_ROWS, conversations))
        ids = _random_ids(start, len(numbers) * TEXTS_EACH)
        texts = pl.DataFrame({"conversation": np.repeat(numbers, TEXTS_EACH), "text_id": ids}).with_columns(
            role=pl.Series(["user", "assistant"] * (len(ids) // 2)),
            content=pl.Series([content_id * (TEXT_CHARACTERS // 32) for content_id in ids]),
            images=pl.Series([[]] * len(ids), dtype=pl.List(pl.Struct({"image": pl.Int32, "character": pl.Int32}))),
        )
        turns = texts.group_by("conversation", maintain_order=True).agg(
            turns=pl.struct("role", "content", "text_id", "images")
        )
        conversation_ids = pl.Series([f"{number:032x}" for number in numbers.tolist()])
        seconds = pl.Series(numbers * 1_000_000).cast(pl.Datetime("us", "UTC"))
        _append(store, "conversations", {
            "conversation_id": conversation_ids, "model": "model", "turns": turns["turns"], "num_turns": 2,
            "prompt_id": conversation_ids, "document_id": conversation_ids, "image_ids": pl.Series([[]] * len(numbers)),
            "tstamp": seconds, "day": seconds.dt.date(), "voted": False, "source": "chats.json", "line": numbers + 1,
        })  # fmt: skip
        measured_ids = ids.gather_every(2)
        _append(store, "signals/tokens", {
            "content_id": measured_ids, "version": VERSIONS["tokens"], "provider": "none", "tokens": 1,
            "measured_at": seconds[0],
        })  # fmt: skip


def _random_ids(seed: int, count: int) -> pl.Series:
    """Content ids, which are in no order, as hashes are."""
    digits = np.random.default_rng(seed).bytes(count * 16).hex()
    return pl.Series([digits[32 * number : 32 * number + 32] for number in range(count)])


def _append(store: Store, table: str, columns: dict[str, Any]) -> None:
    schema = frame_schema(TABLES[table].row)
    rows = pl.DataFrame(columns, strict=False)
    absent = [pl.lit(None, of_column).alias(name) for name, of_column in schema.items() if name not in rows.columns]
    store.append(table, rows.with_columns(absent).select(schema.names()).cast(schema))


def _asked(folder: str) -> dict[str, Any]:
    """How many texts lack tokens, with CPU seconds and MB of memory."""
    store = Store.open(folder)
    base_mb = _greatest_mb()
    began = time.process_time()
    texts = Texts(ConversationForm.LOGGED, MeasuredOn.MESSAGES)
    frames = lacking_texts(store, texts, {"tokens": VERSIONS["tokens"]}, VERSIONS)
    lacking = sum(rows.height for rows in frames)
    cpu_s = round(time.process_time() - began, 2)
    return {"lacking": lacking, "cpu_s": cpu_s, "peak_mb": _greatest_mb(), "base_mb": base_mb}


def _greatest_mb() -> int:
    """Greatest memory of this process; that of `getrusage` would count the process that started it, too."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) // 1024


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ask"]:
        print(json.dumps(_asked(sys.argv[2])))
    else:
        run(int(sys.argv[1]) if len(sys.argv) > 1 else CONVERSATIONS)
