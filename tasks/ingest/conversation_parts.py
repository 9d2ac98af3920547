"""Writes the `conversations` table a slice at a time, so that memory does not grow with the log."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from schemas.conversation import Conversation
from schemas.row import arrow_schema
from tasks.content_id import combined_id, text_id
from tasks.tables import Store, frame_schema

CONVERSATIONS_A_PART = 16_384


class PartWriter(NamedTuple):
    """Writes slices of the table; travels to other processes."""

    store: str
    sightings: Sequence[str]
    """Parts of the `sightings` table."""

    def write(self, last: pl.DataFrame) -> str:
        """Write the conversations of some last sightings as a part; `last` has `image_ids` and `image_problems`."""
        store = Store(self.store)
        texts = _texts(store, self.sightings, last)
        schema = arrow_schema(Conversation)
        columns = _text_columns(texts, last["image_ids"].to_list(), schema)
        known = [name for name in frame_schema(Conversation) if name not in columns]
        rest = last.select(known).to_arrow()
        columns |= {name: rest.column(name).cast(schema.field(name).type) for name in known}
        return store.write_part("conversations", pa.table([columns[name] for name in schema.names], schema=schema))


def slices(ordered: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Last sightings in the table's order, as many as make a part. Appending rows leaves earlier slices as they are."""
    for start in range(0, max(ordered.height, 1), CONVERSATIONS_A_PART):
        yield ordered.slice(start, CONVERSATIONS_A_PART)


def _texts(store: Store, parts: Sequence[str], last: pl.DataFrame) -> list[list[str]]:
    """The messages of every row's sighting; empty where the log held none."""
    found: list[list[str]] = [[]] * last.height
    wanted = last.select("part", "row", "num_messages").with_row_index("place")
    for (part,), rows in wanted.group_by("part", maintain_order=True):
        sightings = store.read_part("sightings", parts[int(str(part))], ["source", "conv_id", "texts"])
        texts = sightings["texts"].gather(_rows_with_texts(sightings, rows["row"]))
        for place, count, messages in zip(rows["place"], rows["num_messages"], texts.to_list(), strict=True):
            found[place] = [message or "" for message in messages[:count]]
    return found


def _rows_with_texts(sightings: pl.DataFrame, rows: pl.Series) -> pl.Series:
    """Where the texts of some rows stand: in the row, or in the next one of its source and conv_id that has texts."""
    if not sightings["texts"].gather(rows).has_nulls():
        return rows
    held = sightings.with_row_index("held").select(
        "source", "conv_id", held=pl.when(pl.col("texts").is_not_null()).then("held")
    )
    return held.select(pl.col("held").backward_fill().over("source", "conv_id"))["held"].gather(rows)


def _text_columns(texts: Sequence[list[str]], image_ids: Sequence[list[str]], schema: pa.Schema) -> dict[str, pa.Array]:
    ids = [[text_id(message) for message in messages] for messages in texts]
    prompts = [
        own[0] if len(messages) < 3 else text_id("\n\n".join(messages[::2]))
        for own, messages in zip(ids, texts, strict=True)
    ]
    documents = [combined_id("document", [p, *i]) for p, i in zip(prompts, image_ids, strict=True)]
    offsets = pa.array(list(accumulate(map(len, texts), initial=0)), pa.int32())
    roles = ["assistant" if place % 2 else "user" for messages in texts for place in range(len(messages))]
    flat = [
        pa.array(roles, pa.string()),
        pa.array([message for messages in texts for message in messages], pa.string()),
        pa.array([one for own in ids for one in own], pa.string()),
    ]
    turn = schema.field("turns").type.value_type
    turns = pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(flat, fields=list(turn)))
    return {
        "turns": turns.cast(schema.field("turns").type),
        "num_turns": pa.array([(len(messages) + 1) // 2 for messages in texts], pa.int32()),
        "prompt_id": pa.array(prompts, pa.string()),
        "document_id": pa.array(documents, pa.string()),
    }


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
