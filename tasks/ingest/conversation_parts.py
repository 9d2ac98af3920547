"""Writes the `conversations` table a slice at a time, so that memory does not grow with the log."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from schemas.conversation import Conversation, Role
from schemas.row import arrow_schema
from tasks.content_id import combined_id, utf8_id
from tasks.tables import Store, frame_schema

CONVERSATIONS_A_PART = 16_384
Counts = npt.NDArray[np.int64]


class PartWriter(NamedTuple):
    """Writes slices of the table; travels to other processes."""

    store: str
    sightings: Sequence[str]
    """Parts of the `sightings` table."""

    def write(self, last: pl.DataFrame) -> str:
        """Write the conversations of some last sightings as a part; `last` has `image_ids` and `image_problems`."""
        store, schema = Store(self.store), arrow_schema(Conversation)
        counts = last["num_messages"].to_numpy().astype(np.int64)
        said = _texts(store, self.sightings, last, counts)
        texts = said.fill_null("").to_arrow(compat_level=pl.CompatLevel.oldest())
        columns = _text_columns(texts, counts, last["image_ids"].to_list(), schema)
        columns["null_turns"] = _null_turns(said.is_null().to_numpy(), counts)
        known = [name for name in frame_schema(Conversation) if name not in columns]
        rest = last.select(known).to_arrow()
        columns |= {name: rest.column(name).cast(schema.field(name).type) for name in known}
        return store.write_part("conversations", pa.table([columns[name] for name in schema.names], schema=schema))


def slices(ordered: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Last sightings in the table's order, as many as make a part. Appending rows leaves earlier slices as they are."""
    for start in range(0, max(ordered.height, 1), CONVERSATIONS_A_PART):
        yield ordered.slice(start, CONVERSATIONS_A_PART)


def _texts(store: Store, parts: Sequence[str], last: pl.DataFrame, counts: Counts) -> pl.Series:
    """The messages of every row's sighting, one row's after the other's; null where the log held null."""
    read, read_before = [pl.Series(dtype=pl.String)], 0
    starts = np.zeros(last.height, np.int64)
    wanted = last.select("part", "row").with_row_index("place")
    for (part,), rows in wanted.group_by("part", maintain_order=True):
        texts = _texts_at(store, parts[int(str(part))], rows["row"])
        lengths = texts.list.len().to_numpy().astype(np.int64)
        starts[rows["place"].to_numpy()] = read_before + np.cumsum(lengths) - lengths
        read.append(texts.explode())
        read_before += int(lengths.sum())
    messages = np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)
    return pl.concat(read).gather(pl.Series(messages)).rechunk()


def _texts_at(store: Store, part: str, rows: pl.Series) -> pl.Series:
    """The texts of some rows of a part: in the row, or in the next one of its source and conv_id that has texts."""
    texts = store.read_part("sightings", part, ["texts"])["texts"]
    found = texts.gather(rows)
    if not found.has_nulls():
        return found
    held = store.read_part("sightings", part, ["source", "conv_id"]).with_row_index("held")
    held = held.with_columns(held=pl.when(texts.is_not_null()).then("held"))
    return texts.gather(held.select(pl.col("held").backward_fill().over("source", "conv_id"))["held"].gather(rows))


def _null_turns(null: npt.NDArray[np.bool_], counts: Counts) -> pa.ListArray:
    """The places in its row of every message that is `null`, bool (messages,); a row has `counts` of them."""
    places = np.flatnonzero(null)
    behind = np.cumsum(counts)
    rows = np.searchsorted(behind, places, side="right")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(counts)))])
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(places - (behind - counts)[rows], pa.int32())
    )


def _text_columns(
    texts: pa.LargeStringArray, counts: Counts, image_ids: Sequence[list[str]], schema: pa.Schema
) -> dict[str, pa.Array]:
    said = _utf8(texts)
    ids = list(map(utf8_id, said))
    behind = np.cumsum(counts)
    prompts = [
        ids[stop - count] if count < 3 else utf8_id(b"\n\n".join(said[stop - count : stop : 2]))
        for stop, count in zip(behind.tolist(), counts.tolist(), strict=True)
    ]
    documents = [combined_id("document", [p, *i]) for p, i in zip(prompts, image_ids, strict=True)]
    answers = (np.arange(len(said)) - np.repeat(behind - counts, counts)) % 2
    roles = pa.array([Role.USER, Role.ASSISTANT], pa.string()).take(pa.array(answers))
    turn = schema.field("turns").type.value_type
    flat = [roles, texts.cast(pa.string()), pa.array(ids, pa.string())]
    offsets = pa.array(np.concatenate([[0], behind]), pa.int32())
    turns = pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(flat, fields=list(turn)))
    return {
        "turns": turns.cast(schema.field("turns").type),
        "num_turns": pa.array((counts + 1) // 2, pa.int32()),
        "prompt_id": pa.array(prompts, pa.string()),
        "document_id": pa.array(documents, pa.string()),
    }


def _utf8(texts: pa.LargeStringArray) -> list[memoryview]:
    """The bytes of every text, not copied."""
    _, offsets, content = texts.buffers()
    bounds = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1].tolist()
    view = memoryview(content or b"")
    return [view[start:stop] for start, stop in pairwise(bounds)]


def with_pictures(last: pl.DataFrame, picture_files: pl.DataFrame) -> pl.DataFrame:
    """`last` with `image_ids` and `image_problems` by the names its sightings hold."""
    best = (
        picture_files.with_columns(
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
    return (
        last.join(found, on="conversation_id", how="left", maintain_order="left")
        .with_columns(
            image_ids=pl.col("image_id").fill_null(empty),
            image_problems=pl.concat_list("picture_problems", pl.col("problem").fill_null(empty)),
        )
        .drop("image_id", "problem", "pictures", "picture_problems")
    )
