"""Tables `sightings` and `picture_files` -> `conversations` and `battles`.

A sighting is one conversation as one log line shows it. Later lines repeat earlier ones (turn 3 repeats turns 1 and 2,
a vote repeats both sides), so the last sighting of a conversation is its final state, in whatever order lines are read.
DuckDB joins the sightings without their texts and spills to a temporary folder beyond MEMORY_LIMIT; texts are read for
one part of `conversations` at a time.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import polars as pl
import pyarrow as pa

from schemas.battle import Battle
from schemas.conversation import Conversation, Role
from tasks.runtime.parallel import map_ordered
from tasks.storage.content_id import combined_id, text_id
from tasks.storage.tables import Store, frame_schema

ROWS_A_PART = 16_384
MEMORY_LIMIT = "1200MB"
"""Memory limit of DuckDB; it writes the rest to the temporary folder."""
_MADE_FROM = "ingest/assembled_from"
_SQL = Path(__file__).with_name("assemble.sql")
_COLUMNS = [
    "source", "line", "side", "record_type", "tstamp", "conv_id", "opening_id", "model", "num_messages", "pictures",
    "picture_problems", "user_id", "anonymous", "winner",
]  # fmt: skip


def assemble_store(store: Store, workers: int) -> dict[str, int]:
    """Write both tables, unless they were already made from the same input parts. Returns the rows of each."""
    parts = store.parts("sightings")
    seen = json.dumps([parts, store.parts("picture_files")])
    made_from = hashlib.blake2b(seen.encode()).hexdigest().encode()
    if store.read_bytes(_MADE_FROM) != made_from:
        with _joined(store, parts, workers) as database:
            battles = (store.write_part("battles", _as_rows(rows, Battle)) for rows in _slices(database, "battles"))
            store.list_parts("battles", list(battles))
            files = store.read("picture_files").unique("name", keep="last")
            last = (with_images(rows, files) for rows in _slices(database, "conversations"))
            write = partial(_write_conversations, store.root, parts)
            store.list_parts("conversations", list(map_ordered(write, last, workers)))
        store.write_bytes(_MADE_FROM, made_from)
    return {table: store.height(table) for table in ("conversations", "battles")}


@contextmanager
def _joined(store: Store, parts: Sequence[str], workers: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with the tables `conversations` (without texts) and `battles`; `place` numbers their rows from 1."""
    with TemporaryDirectory() as folder, duckdb.connect() as database:
        database.execute("SET enable_progress_bar = false")  # it would go to the standard output
        database.execute("SET preserve_insertion_order = false")  # queries that need an order have ORDER BY
        database.execute("SET memory_limit = $1", [MEMORY_LIMIT])
        database.execute("SET threads = $1", [workers])
        database.execute("SET temp_directory = $1", [folder])
        database.from_arrow(_numbered(store.empty("sightings", _COLUMNS), 0)).create("seen")
        for number, part in enumerate(parts):
            database.from_arrow(_numbered(store.read_part("sightings", part, _COLUMNS), number)).insert_into("seen")
        database.create_function("opening_suffix", _opening_suffix, ["VARCHAR", "VARCHAR"], "VARCHAR")
        database.execute(_SQL.read_text(encoding="utf-8"))
        yield database


def _numbered(rows: pl.DataFrame, part: int) -> pa.Table:
    """Sightings with their part number and row number, and their time as microseconds."""
    return (
        rows.with_row_index("row").with_columns(pl.col("tstamp").dt.epoch("us"), part=pl.lit(part, pl.Int32)).to_arrow()
    )


def _opening_suffix(opening_id: str, image: str) -> str:
    """8 hex digits that are appended to the conv_id of every conversation but the first one under it."""
    return combined_id("opening", [opening_id + image])[:8]


def _slices(database: duckdb.DuckDBPyConnection, table: str) -> Iterator[pl.DataFrame]:
    """The rows of a table in order, ROWS_A_PART at a time; an empty table gives one empty slice."""
    ((count,),) = database.table(table).count("place").fetchall()
    for start in range(0, max(count, 1), ROWS_A_PART):
        wanted = f"place BETWEEN {start + 1} AND {start + ROWS_A_PART}"
        rows = database.table(table).filter(wanted).order("place").pl()
        yield rows.with_columns(pl.from_epoch(pl.col("tstamp", "first_tstamp"), "us").dt.replace_time_zone("UTC"))


def _write_conversations(root: str, parts: Sequence[str], last: pl.DataFrame) -> str:
    """Write the conversations of some last sightings as a part; called on several threads.

    `parts` are those of `sightings`; `last` has `image_ids` and `image_problems`.
    """
    store = Store(root)
    rows = with_turns(last.with_columns(texts=_texts(store, parts, last)))
    return store.write_part("conversations", _as_rows(rows, Conversation))


def _as_rows(rows: pl.DataFrame, row: type[Battle] | type[Conversation]) -> pl.DataFrame:
    """The columns that the table declares, cast to their types."""
    rows = rows.with_columns(day=pl.col("first_tstamp").dt.date())
    return rows.select(pl.col(name).cast(kind) for name, kind in frame_schema(row).items())


def _texts(store: Store, parts: Sequence[str], last: pl.DataFrame) -> pl.Series:
    """The messages of each row's sighting; a message is null where the log held null."""
    found = [pl.DataFrame(schema={"part": pl.Int32, "row": pl.UInt32, "texts": pl.List(pl.String)})]
    for (part,), rows in last.select("part", "row").partition_by("part", as_dict=True).items():
        found.append(rows.with_columns(texts=_texts_at(store, parts[int(str(part))], rows["row"])))
    joined = last.join(pl.concat(found), on=["part", "row"], how="left", maintain_order="left")
    return joined.select(pl.col("texts").list.head("num_messages")).to_series()


def _texts_at(store: Store, part: str, rows: pl.Series) -> pl.Series:
    """The texts of some rows of a part. A row without texts takes them from the next row of its source and conv_id."""
    seen = store.read_part("sightings", part, ["source", "conv_id", "texts"]).with_row_index("row")
    holder = pl.when(pl.col("texts").is_not_null()).then("row").backward_fill().over("source", "conv_id")
    return seen["texts"].gather(seen.select(holder).to_series().gather(rows))


def with_turns(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the columns computed from `texts` and `image_ids`: turns, null_turns, num_turns, prompt_id, document_id."""
    is_user = pl.col("place") % 2 == 0
    messages = (
        rows.select("conversation_id", "texts")
        .explode("texts")
        .with_columns(place=pl.int_range(pl.len()).over("conversation_id"), content=pl.col("texts").fill_null(""))
        .with_columns(role=pl.when(is_user).then(pl.lit(Role.USER.value)).otherwise(pl.lit(Role.ASSISTANT.value)))
    )
    id_of = cache(text_id)  # both sides of a battle have the same prompt, which is often the only user message
    messages = messages.with_columns(text_id=pl.Series(map(id_of, messages["content"]), dtype=pl.String))
    by_conversation = messages.group_by("conversation_id", maintain_order=True).agg(
        turns=pl.struct("role", "content", "text_id"),
        null_turns=pl.col("place").filter(pl.col("texts").is_null()),
        num_turns=is_user.sum(),
        prompt=pl.col("content").filter(is_user).str.join("\n\n"),
    )
    rows = rows.join(by_conversation, on="conversation_id", how="left", maintain_order="left")
    rows = rows.with_columns(prompt_id=pl.Series(map(id_of, rows["prompt"]), dtype=pl.String))
    documents = [combined_id("document", [p, *ids]) for p, ids in rows.select("prompt_id", "image_ids").iter_rows()]
    return rows.with_columns(document_id=pl.Series(documents, dtype=pl.String))


def with_images(last: pl.DataFrame, image_files: pl.DataFrame) -> pl.DataFrame:
    """Add `image_ids` and `image_problems`, looked up in table `picture_files` by the logged image names."""
    best = (
        image_files.with_columns(
            pictures=pl.col("name").str.replace(r"\.[a-z]+$", ""), exact=pl.col("name").str.ends_with(".png")
        )
        .sort("exact", "name", descending=[True, False])
        .unique("pictures", keep="first", maintain_order=True)
        .select("pictures", "image_id", "problem")
    )
    named = last.select("conversation_id", "pictures").explode("pictures").drop_nulls("pictures")
    found = (
        named.join(best, on="pictures", how="left", maintain_order="left")
        .with_columns(problem=pl.when(pl.col("image_id").is_null()).then(pl.col("problem").fill_null("image_missing")))
        .group_by("conversation_id", maintain_order=True)
        .agg(pl.col("image_id", "problem").drop_nulls().unique(maintain_order=True))
    )
    empty = pl.lit([], dtype=pl.List(pl.String))
    return last.join(found, on="conversation_id", how="left", maintain_order="left").with_columns(
        image_ids=pl.col("image_id").fill_null(empty),
        image_problems=pl.concat_list("picture_problems", pl.col("problem").fill_null(empty)),
    )
