"""Content ids: 32 hex digits that depend on the content alone."""

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt


def _digest(*parts: bytes | memoryview) -> str:
    """Hash of the parts, each with its length before it, so that no byte can move from one to the next."""
    framed = [each for part in parts for each in (memoryview(part).nbytes.to_bytes(8, "little"), part)]
    return hashlib.blake2b(b"".join(framed), digest_size=16).hexdigest()


def text_id(text: str) -> str:
    """Content id of a text, of its UTF-8 bytes exactly as they stand."""
    return _digest(b"text", text.encode("utf-8", "surrogatepass"))


def image_id(rgb: npt.NDArray[np.uint8]) -> str:
    """Content id of decoded pixels: uint8 (height, width, 3), orientation applied."""
    height, width, _ = rgb.shape
    return _digest(b"rgb", height.to_bytes(4, "little"), width.to_bytes(4, "little"), np.ascontiguousarray(rgb).data)


def combined_id(kind: str, ids: Iterable[str]) -> str:
    """Content id of something made of others, such as a prompt with its images."""
    return _digest(kind.encode(), *(part.encode("utf-8", "surrogatepass") for part in ids))
