"""Sightings as tuples -> the `sightings` table. Column by column, because there are millions."""

from collections.abc import Sequence
from itertools import accumulate, chain

import pyarrow as pa

from schemas.conversation import Sighting
from schemas.row import arrow_schema
from tasks.ingest.log_line import Seen

_LISTS = ("texts", "pictures", "picture_problems")


def sighting_table(seen: Sequence[Seen]) -> pa.Table:
    """One row a sighting, in order."""
    schema = arrow_schema(Sighting)
    columns = dict(zip(Seen._fields, zip(*seen, strict=True), strict=True))
    columns["num_messages"] = tuple(map(len, columns["texts"]))
    arrays = [_array(columns[name], name, schema.field(name).type) for name in schema.names]
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(values: Sequence[object], name: str, kind: pa.DataType) -> pa.Array:
    if name not in _LISTS:
        return pa.array(values, kind)
    offsets = pa.array(list(accumulate(map(len, values), initial=0)), pa.int32())  # type: ignore[arg-type]
    return pa.ListArray.from_arrays(offsets, pa.array(list(chain.from_iterable(values)), pa.string()))  # type: ignore[arg-type]
