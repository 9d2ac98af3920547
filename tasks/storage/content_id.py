"""Content ids: 32 hex digits (BLAKE2b) that depend only on the content."""

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import polars as pl

ID_DIGITS = 32
"""Hex digits of a content id."""


def _digest(*parts: bytes | memoryview) -> str:
    """Hash of the parts. Each part is prefixed with its length, so that ("ab", "c") and ("a", "bc") differ."""
    framed = [piece for part in parts for piece in (memoryview(part).nbytes.to_bytes(8, "little"), part)]
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
