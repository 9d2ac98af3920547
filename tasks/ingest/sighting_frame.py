"""Sightings -> the `sightings` table. Column by column, because there are millions."""

from collections.abc import Mapping, Sequence, Set
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from schemas.conversation import Sighting
from schemas.row import arrow_schema
from tasks.ingest.arrow_columns import column, lists, strings
from tasks.ingest.log_line import Seen

_LISTS = ("texts", "pictures", "picture_problems")
Texts = list[str | None]
TIME = arrow_schema(Sighting).field("tstamp").type


def sighting_table(seen: Sequence[Seen], elsewhere: Set[str] = frozenset()) -> pa.Table:
    """One row a sighting, in order; texts that the next sighting of the conversation repeats are left out.

    Conversations that are also `elsewhere` keep all their texts.
    """
    values = zip(*seen, strict=True) if seen else [()] * len(Seen._fields)
    columns: dict[str, Sequence[Any]] = dict(zip(Seen._fields, values, strict=True))
    columns["num_messages"] = list(map(len, columns["texts"]))
    columns["texts"] = _not_repeated(columns["conv_id"], columns["texts"], elsewhere)
    return table_of(columns)


def table_of(columns: Mapping[str, Sequence[Any] | pa.Array]) -> pa.Table:
    """The rows of some columns."""
    schema = arrow_schema(Sighting)
    arrays = [_array(columns[name], name, schema.field(name).type) for name in schema.names]
    return pa.Table.from_arrays(arrays, schema=schema)


def _not_repeated(conv_ids: Sequence[str], texts: Sequence[Texts], elsewhere: Set[str]) -> list[Texts | None]:
    """`texts` with null for those that the next sighting of the same conv_id begins with."""
    own: list[Texts | None] = list(texts)
    following: dict[str, Texts] = {}
    for place in range(len(own) - 1, -1, -1):
        conv_id, said = conv_ids[place], texts[place]
        if conv_id in following and following[conv_id][: len(said)] == said:
            own[place] = None
        if conv_id not in elsewhere:
            following[conv_id] = said
    return own


def _array(values: Sequence[Any] | pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    if name not in _LISTS:
        return column(values, kind)
    texts: list[str | None] = list(chain.from_iterable(each or () for each in values))
    missing = np.array([each is None for each in values], np.bool_) if name == "texts" else None
    return lists(np.array([len(each or ()) for each in values], np.int32), strings(texts), missing)
