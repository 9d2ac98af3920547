"""NumPy arrays and Python strings -> Arrow arrays.

`pa.array` is not used where logs are read and conversations written: it imports pandas, if that is installed, which
takes longer than reading ten thousand lines.
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Flags = npt.NDArray[np.bool_]


def numbers(values: npt.NDArray[Any], kind: pa.DataType | None = None) -> pa.Array:
    """Values (n,) as they stand in memory, none null; `kind` of the same width if it is not the array's own."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(kind or pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def flags(values: Flags, there: Flags | None = None) -> pa.BooleanArray:
    """Bool (n,), null where bool (n,) `there` is not set."""
    buffers = [None if bits is None else pa.py_buffer(np.packbits(bits, bitorder="little")) for bits in (there, values)]
    return pa.Array.from_buffers(pa.bool_(), len(values), buffers)


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Python values or None, as numbers, strings or bools."""
    dtype = pl.String if kind == pa.string() else pl.Boolean if kind == pa.bool_() else pl.Int64
    return pl.Series(values, dtype=dtype).to_arrow(compat_level=pl.CompatLevel.oldest()).cast(kind)


def strings(values: Sequence[str | None]) -> pa.StringArray:
    """Texts or None."""
    return column(values, pa.string())


def lists(counts: npt.NDArray[Any], values: pa.Array, missing: Flags | None = None) -> pa.ListArray:
    """Lists of `counts`, int (n,), consecutive `values` each; null where bool (n,) `missing` is set."""
    offsets = numbers(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    mask = None if missing is None else flags(missing)
    return cast(pa.ListArray, pa.ListArray.from_arrays(offsets, values, mask=mask))
