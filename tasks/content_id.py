"""Content ids: 32 hex digits that depend on the content alone."""

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

_TEXT = len(b"text").to_bytes(8, "little") + b"text"


def _digest(*parts: bytes | memoryview) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(memoryview(part).nbytes.to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def text_id(text: str) -> str:
    """Content id of a text, of its UTF-8 bytes exactly as they stand."""
    return utf8_id(text.encode("utf-8", "surrogatepass"))


def utf8_id(content: bytes | memoryview) -> str:
    """Content id of a text that is at hand as UTF-8."""
    # The same bytes as `_digest(b"text", content)` in one call: ingest does this for every message.
    return hashlib.blake2b(_TEXT + len(content).to_bytes(8, "little") + content, digest_size=16).hexdigest()


def image_id(rgb: npt.NDArray[np.uint8]) -> str:
    """Content id of decoded pixels: uint8 (height, width, 3), orientation applied."""
    height, width, _ = rgb.shape
    return _digest(b"rgb", height.to_bytes(4, "little"), width.to_bytes(4, "little"), np.ascontiguousarray(rgb).data)


def combined_id(kind: str, ids: Iterable[str]) -> str:
    """Content id of something made of others, such as a prompt with its pictures."""
    parts = [kind.encode(), *(part.encode("utf-8", "surrogatepass") for part in ids)]
    # The same bytes as `_digest(*parts)` in one call, for the same reason.
    content = b"".join([len(part).to_bytes(8, "little") + part for part in parts])
    return hashlib.blake2b(content, digest_size=16).hexdigest()
