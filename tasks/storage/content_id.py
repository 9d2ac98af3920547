"""Content ids: 32 hex digits (BLAKE2b) that depend only on the content; and large sets of them in little memory."""

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import polars as pl

ID_DIGITS = 32
"""Hex digits of a content id."""


def _digest(*parts: bytes | memoryview) -> str:
    """Hash of the parts. Each part is prefixed with its length, so that ("ab", "c") and ("a", "bc") differ."""
    framed = [each for part in parts for each in (memoryview(part).nbytes.to_bytes(8, "little"), part)]
    return hashlib.blake2b(b"".join(framed), digest_size=ID_DIGITS // 2).hexdigest()


def text_id(text: str) -> str:
    """Content id of a text: of its UTF-8 bytes, without normalisation."""
    return _digest(b"text", text.encode("utf-8", "surrogatepass"))


def image_id(rgb: npt.NDArray[np.uint8]) -> str:
    """Content id of decoded pixels: uint8 (height, width, 3), orientation applied."""
    height, width, _ = rgb.shape
    return _digest(b"rgb", height.to_bytes(4, "little"), width.to_bytes(4, "little"), np.ascontiguousarray(rgb).data)


def combined_id(kind: str, ids: Iterable[str]) -> str:
    """Content id of a combination of texts or images, such as a prompt with its images, from their content ids."""
    return _digest(kind.encode(), *(part.encode("utf-8", "surrogatepass") for part in ids))


def number_of(ids: pl.Expr) -> pl.Expr:
    """Content ids as UInt128, in a third of the memory; null for what is no content id."""
    return ids.str.decode("hex", strict=False).bin.reinterpret(dtype=pl.UInt128)


def id_of(number: int) -> str:
    """The content id that `number_of` made a number."""
    return number.to_bytes(ID_DIGITS // 2, "little").hex()


class Distinct:
    """A set of values of one type, each kept as a 64-bit hash; null is never added.

    Among 100 million values, two share a hash with a chance of 1 in 3,700, so counts are exact almost always. One other
    value is taken for a member of such a set with a chance of 1 in 180 billion; another `seed` gives other hashes.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._runs: list[npt.NDArray[np.uint64]] = []
        """Sorted hashes, each in one run; a run is more than twice as long as the next, so there are few."""

    def add(self, values: pl.Series) -> None:
        """Add values."""
        hashes = np.unique(self._hashes(values.drop_nulls()))
        run = hashes[~self._contains(hashes)]
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]))
        if len(run):
            self._runs.append(run)

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def has(self, values: pl.Series) -> pl.Series:
        """Boolean for each value: whether it is in the set; null is not."""
        if not self._runs:
            return pl.repeat(False, len(values), eager=True)
        return pl.Series(self._contains(self._hashes(values)), dtype=pl.Boolean) & values.is_not_null()

    def _contains(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        contained = np.zeros(len(hashes), bool)
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            contained |= run[places] == hashes
        return contained

    def hold(self, column: pl.Expr) -> pl.Expr:
        """`has` as a polars expression."""
        return column.map_batches(self.has, return_dtype=pl.Boolean)

    def _hashes(self, values: pl.Series) -> npt.NDArray[np.uint64]:
        return (values.cast(pl.String) if values.dtype == pl.Null else values).hash(self._seed).to_numpy()
