"""Writes the `conversations` table a slice at a time, so that memory does not grow with the log."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from schemas.conversation import Conversation, Role
from schemas.row import arrow_schema
from tasks.ingest.arrow_columns import lists, numbers, strings
from tasks.ingest.content_digests import digests, text_ids
from tasks.tables import Store, frame_schema

CONVERSATIONS_A_PART = 16_384
_ROLES = strings([Role.USER, Role.ASSISTANT])
_BETWEEN_QUESTIONS = strings(["\n\n"])[0]
Counts = npt.NDArray[np.int64]


class PartWriter(NamedTuple):
    """Writes slices of the table; on any thread, for what takes long lets go of the interpreter."""

    store: str
    sightings: Sequence[str]
    """Parts of the `sightings` table."""

    def write(self, last: pl.DataFrame) -> str:
        """Write the conversations of some last sightings as a part; `last` has `image_ids` and `image_problems`."""
        store, schema = Store(self.store), arrow_schema(Conversation)
        counts = last["num_messages"].to_numpy().astype(np.int64)
        said = _texts(store, self.sightings, last, counts)
        texts = said.fill_null("").to_arrow(compat_level=pl.CompatLevel.oldest()).cast(pa.string())
        rest = last.select([name for name in frame_schema(Conversation) if name in last.columns]).to_arrow()
        columns = {name: rest.column(name).combine_chunks().cast(schema.field(name).type) for name in rest.column_names}
        columns |= _text_columns(texts, counts, columns["image_ids"], schema)
        columns["null_turns"] = _null_turns(said.is_null().to_numpy(), counts)
        return store.write_part("conversations", pa.table([columns[name] for name in schema.names], schema=schema))


def slices(last: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Last sightings in the table's order, as many as make a part. Appending rows leaves earlier slices as they are.

    They are put in order a slice at a time, so that memory holds them once.
    """
    order = last.select(pl.arg_sort_by("tstamp", "conversation_id")).to_series()
    for start in range(0, max(last.height, 1), CONVERSATIONS_A_PART):
        yield last[order[start : start + CONVERSATIONS_A_PART]]


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
    rows = np.repeat(np.arange(len(counts)), counts)[null]
    return lists(np.bincount(rows, minlength=len(counts)), numbers(_places(counts)[null].astype(np.int32)))


def _places(counts: Counts) -> Counts:
    """int64 (messages,): where each stands in its row."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def _text_columns(
    texts: pa.StringArray, counts: Counts, image_ids: pa.ListArray, schema: pa.Schema
) -> dict[str, pa.Array]:
    place, asked = _places(counts), (counts + 1) // 2
    questions = lists(asked, texts.take(numbers(np.flatnonzero(place % 2 == 0))))
    prompts = text_ids(pc.binary_join(questions, _BETWEEN_QUESTIONS))
    turn = schema.field("turns").type.value_type
    flat = [_ROLES.take(numbers(place % 2)), texts, text_ids(texts)]
    turns = lists(counts, pa.StructArray.from_arrays(flat, fields=list(turn)))
    return {
        "turns": turns.cast(schema.field("turns").type),
        "num_turns": numbers(asked.astype(np.int32)),
        "prompt_id": prompts,
        "document_id": _document_ids(prompts, image_ids),
    }


def _document_ids(prompts: pa.StringArray, image_ids: pa.ListArray) -> pa.StringArray:
    """Of every prompt with its pictures."""
    counts = 1 + cast(pl.Series, pl.from_arrow(image_ids)).list.len().to_numpy().astype(np.int64)
    order = np.empty(counts.sum(), np.int64)
    first = np.zeros(len(order), np.bool_)
    first[np.cumsum(counts) - counts] = True
    order[first], order[~first] = np.arange(len(prompts)), len(prompts) + np.arange((~first).sum())
    return digests(b"document", counts, pa.concat_arrays([prompts, image_ids.flatten()]).take(numbers(order)))


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
