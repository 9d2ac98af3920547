"""Reads the tensors of a torch weight file without torch and without running anything in it.

A `.pth` file in torch's older format is three pickles of headers, the pickled state dictionary whose tensors
point at storages by key, the pickled list of storage keys, then for every key an element count and raw values.
"""

import pickle
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

Tensor = npt.NDArray[Any]

_DTYPES: dict[str, np.dtype[Any]] = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}


class _Storage(NamedTuple):
    key: str
    dtype: np.dtype[Any]


class _View(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements. Weights converted from other frameworks are often not contiguous."""


def _rebuild(storage: _Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: object) -> _View:
    return _View(storage, offset, shape, strides)


class _Unpickler(pickle.Unpickler):
    """Knows the few names a state dictionary needs and refuses every other."""

    def find_class(self, module: str, name: str) -> Callable[..., Any] | str:
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch" and name in _DTYPES:
            return name
        raise pickle.UnpicklingError(f"{module}.{name} has no place in a weight file")

    def persistent_load(self, pid: Any) -> _Storage:
        return _Storage(key=str(pid[2]), dtype=_DTYPES[pid[1]])


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Name -> array of every tensor in the file, in the file's own types and shapes."""
    with path.open("rb") as stream:
        for _ in range(3):
            _Unpickler(stream).load()
        views: dict[str, _View] = _Unpickler(stream).load()
        keys: list[str] = _Unpickler(stream).load()
        dtypes = {view.storage.key: view.storage.dtype for view in views.values()}
        storages = {key: _storage(stream, dtypes[key]) for key in map(str, keys)}
    return {name: _array(view, storages) for name, view in views.items()}


def _storage(stream: BinaryIO, dtype: np.dtype[Any]) -> Tensor:
    count = int.from_bytes(stream.read(8), "little")
    return np.frombuffer(stream.read(count * dtype.itemsize), dtype)


def _array(view: _View, storages: dict[str, Tensor]) -> Tensor:
    flat = storages[view.storage.key][view.offset :]
    strides = tuple(stride * flat.itemsize for stride in view.strides)
    reach = sum((size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True))
    if reach >= flat.size:
        raise ValueError("a tensor reaches beyond its storage")
    return np.ascontiguousarray(np.lib.stride_tricks.as_strided(flat, view.shape, strides)).reshape(view.shape)
