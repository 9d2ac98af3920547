"""Which row of a configuration shows which pictures, as one checksum."""

import hashlib
from collections.abc import Iterator

import polars as pl

from schemas.release import KEYS
from tasks.distinct import Distinct

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


class PictureContents:
    """Whether a picture's name stands for the same bytes in every row; 16 bytes of memory a picture."""

    def __init__(self) -> None:
        self._names, self._contents = Distinct(), Distinct()

    def add(self, rows: pl.DataFrame) -> None:
        """The next rows, as a shard holds them."""
        picture = rows["images"].explode().drop_nulls().struct
        named = pl.DataFrame({"name": picture.field("path").hash(), "content": picture.field("bytes").hash()})
        self._names.add(named["name"])
        self._contents.add(named.to_struct())

    def unlike(self) -> Iterator[str]:
        """Says so when some names stand for several contents."""
        if count := len(self._contents) - len(self._names):
            yield f"{count} pictures are not the same in every row that shows them"
