"""Which row of a configuration shows which pictures, as one checksum."""

import hashlib

import polars as pl

from schemas.release import KEYS

CONTENT_ID_DIGITS = 32
"""Of a picture's name in a release; its extension follows."""


class PictureLists:
    """SHA-256 of the id of every row and the content ids of its pictures, in the order of the release."""

    def __init__(self, config: str) -> None:
        self._key = KEYS[config]
        self._digest = hashlib.sha256()

    def add(self, rows: pl.DataFrame) -> None:
        """The next rows, as they are gathered, with `image_ids`, or as a shard holds them, with `images`."""
        name = pl.element().struct.field("path").str.head(CONTENT_ID_DIGITS)
        ids = pl.col("image_ids") if "image_ids" in rows.columns else pl.col("images").list.eval(name)
        key = pl.col(self._key)
        lines = rows.select(pl.format("{} {} {}\n", key.str.len_bytes(), key, ids.list.join(" "))).to_series()
        self._digest.update(lines.str.join().item().encode())

    def hexdigest(self) -> str:
        """64 hex digits."""
        return self._digest.hexdigest()
