"""Reading compar:IA's tables from a PostgreSQL database against reading the same turns from its exported file.

    python -m benchmarks.database_import postgresql://USER@HOST/EMPTY_DATABASE

makes the tables there, with TURNS drawn turns on DAYS days. Seconds are CPU seconds of whole processes with imports, of
the database server none. `memory_mb_per_million_turns` is how the peak grows from a quarter of the turns to all.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.timing import write
from schemas.settings import Settings
from tasks.ingest.database import database_days
from tasks.ingest.steps import assemble, read_log_lines

TURNS, DAYS = 200_000, 40
_ROWS_A_GROUP = 10_000
_TABLES = """
    CREATE TABLE comparison (
        id uuid PRIMARY KEY, created_at timestamp NOT NULL, llm_id_a varchar, llm_id_b varchar, cohorts varchar,
        error jsonb, llm_analyzed boolean, contains_pii boolean, contains_spam boolean, archived boolean,
        categories jsonb, languages jsonb
    );
    CREATE TABLE llm_message (id uuid PRIMARY KEY, content varchar NOT NULL, updated_at timestamp NOT NULL);
    CREATE TABLE turn (
        id uuid PRIMARY KEY, comparison_id uuid NOT NULL REFERENCES comparison, created_at timestamp NOT NULL,
        choice varchar, voted_at timestamp, llm_msg_a_id uuid, keyword_annotations_a jsonb, custom_annotation_a varchar,
        llm_msg_b_id uuid, keyword_annotations_b jsonb, custom_annotation_b varchar
    );
    CREATE INDEX turn_comparison ON turn (comparison_id);
    CREATE TABLE user_message (content varchar NOT NULL, turn_id uuid UNIQUE);
"""
_DRAWN = """
    CREATE FUNCTION pg_temp.drawn_uuid(kind text, number bigint) RETURNS uuid LANGUAGE sql IMMUTABLE
        AS $$ SELECT md5(kind || number)::uuid $$;
    CREATE FUNCTION pg_temp.drawn_text(number bigint, times integer) RETURNS text LANGUAGE sql IMMUTABLE
        AS $$ SELECT repeat('What does word ' || md5(number::text) || ' say to the reader? ', times) $$;
    -- a row is a comparison of two turns
    INSERT INTO comparison
    SELECT
        pg_temp.drawn_uuid('comparison', n),
        '2026-01-01'::timestamp + (n % {days}) * interval '1 day' + n * interval '1 ms',
        'model-' || n % 40, 'model-' || (n + 7) % 40, NULL, NULL, true, false, false, false, '["Arts"]', '["fr"]'
    FROM generate_series(0, {comparisons} - 1) AS n;
    -- a row is an answer: four a comparison
    INSERT INTO llm_message
    SELECT pg_temp.drawn_uuid('answer', n), pg_temp.drawn_text(n, 12), '2026-03-01'
    FROM generate_series(0, 4 * {comparisons} - 1) AS n;
    -- a row is a turn, every third one without a vote
    INSERT INTO turn
    SELECT
        pg_temp.drawn_uuid('turn', n), pg_temp.drawn_uuid('comparison', n / 2),
        '2026-03-01'::timestamp + n * interval '1 ms',
        (ARRAY['a_better', 'both_good', NULL])[1 + n % 3], NULL, pg_temp.drawn_uuid('answer', 2 * n), '[]', NULL,
        pg_temp.drawn_uuid('answer', 2 * n + 1), '["useful"]', NULL
    FROM generate_series(0, 2 * {comparisons} - 1) AS n;
    -- a row is a question: one a turn
    INSERT INTO user_message
    SELECT pg_temp.drawn_text(n, 2), pg_temp.drawn_uuid('turn', n) FROM generate_series(0, 2 * {comparisons} - 1) AS n;
    ANALYZE;
"""


def run(address: str) -> list[dict[str, Any]]:
    """Measure TURNS turns and a quarter of them, from the database and from a file, each in a new process."""
    taken = {}
    for turns in (TURNS // 4, TURNS):
        asyncio.run(_fill(address, turns))
        taken[turns] = _in_new_process(f"b.import_once(source={address!r})")
    with tempfile.TemporaryDirectory() as folder:
        _export(address, Path(folder) / "turns.parquet")
        from_file = _in_new_process(f"b.import_once(logs={folder!r})")
    ours, quarter = taken[TURNS], taken[TURNS // 4]
    row = {
        "bench": "ingest: turns of a database",
        "n": TURNS,
        "ours_s": round(ours["cpu_s"], 2),
        "peer": "our reading of the same turns from Parquet",
        "peer_s": round(from_file["cpu_s"], 2),
        "ratio": round(from_file["cpu_s"] / ours["cpu_s"], 2),
        "wall_ratio": round(from_file["wall_s"] / ours["wall_s"], 2),
        "memory_mb": round(ours["memory_mb"]),
        "memory_mb_per_million_turns": round((ours["memory_mb"] - quarter["memory_mb"]) / (TURNS * 0.75) * 1_000_000),
    }
    print(json.dumps(row), flush=True)
    return [row]


async def _fill(address: str, turns: int) -> None:
    connection = await asyncpg.connect(address)
    await connection.execute("DROP TABLE IF EXISTS user_message, turn, llm_message, comparison")
    await connection.execute(_TABLES)
    await connection.execute(_DRAWN.format(days=DAYS, comparisons=turns // 2), timeout=3_600)
    await connection.close()


def _export(address: str, file: Path) -> None:
    """The rows of the database as compar:IA's set has them."""
    writer = None
    for rows in _groups(address):
        table = pa.Table.from_pylist(rows, writer.schema if writer else None)
        writer = writer or pq.ParquetWriter(file, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _groups(address: str) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    for day in database_days(address, "comparia"):
        for row in day.rows():
            sides = {f"response_{side}": row[f"full_conversation_{side}"][-2:] for side in "ab"}
            own = {"response_id": f"{row['comparison_id']}-{row['turn']}", **sides}
            group.append({name: row[name] for name in _OF_SET if name in row} | own)
            if len(group) >= _ROWS_A_GROUP:
                yield group
                group = []
    yield group


_OF_SET = (
    "comparison_id", "turn", "choice", "timestamp", "model_a", "model_b", "full_conversation_a", "full_conversation_b",
    "metadata",
)  # fmt: skip


def _in_new_process(call: str) -> dict[str, float]:
    program = f"import benchmarks.database_import as b; {call}"
    done = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True)
    taken: dict[str, float] = json.loads(done.stdout)
    return taken


def import_once(**given: str) -> None:
    """Read a database or logs into a new store with one worker, and assemble it. Prints time and memory."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as root:
        settings = Settings(store=root, workers=1, **given)
        read_log_lines.fn(settings)
        assemble.fn(settings)
    wall = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"wall_s": wall, "cpu_s": used.ru_utime + used.ru_stime, "memory_mb": used.ru_maxrss / 1024}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.database_import", description=__doc__)
    parser.add_argument("address")
    write(run(parser.parse_args().address))
