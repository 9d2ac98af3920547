"""Vectors of a table: on disk arrays of one size, in memory lists, because the size depends on the model."""

import pyarrow as pa
import pyarrow.compute as pc

_LISTS = pa.list_(pa.float32())


def of_one_size(table: pa.Table) -> pa.Table:
    """Columns of float32 lists as fixed-size lists; a column whose lists differ in length, or lack, stays as it is."""
    for place, field in enumerate(table.schema):
        if field.type == _LISTS:
            sizes = pc.unique(pc.list_value_length(table.column(place))).to_pylist()
            if len(sizes) == 1 and sizes[0]:
                table = _cast(table, place, pa.list_(pa.float32(), sizes[0]))
    return table


def as_lists(table: pa.Table) -> pa.Table:
    """Columns of fixed-size float32 lists as lists of any size."""
    for place, field in enumerate(table.schema):
        if pa.types.is_fixed_size_list(field.type):
            table = _cast(table, place, _LISTS)
    return table


def _cast(table: pa.Table, place: int, kind: pa.DataType) -> pa.Table:
    return table.set_column(place, table.field(place).with_type(kind), table.column(place).cast(kind))
