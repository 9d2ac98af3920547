"""Rows and images for release benchmarks, drawn by number; images are random bytes, 60 KB on average."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl

from schemas.release import ReleasedCategories
from schemas.tables import TABLES
from tasks.storage.tables import Store, frame_schema

_WORDS = [f"word{number}" for number in range(3_000)]
_PART = 512


def chat_rows(numbers: Iterable[int], told_anew: frozenset[int] = frozenset()) -> pl.DataFrame:
    """Rows of `chat` with `image_ids`, about 2 kB of text each; rows in `told_anew` have another text."""
    rows = [_row(number, number in told_anew) for number in numbers]
    return pl.DataFrame(rows, schema_overrides={"num_turns": pl.Int32, "preset_dataset": pl.String})


def _row(number: int, anew: bool) -> dict[str, object]:
    told = " ".join(_WORDS[word] for word in np.random.default_rng([number, anew]).integers(0, len(_WORDS), 250))
    return {
        "image_ids": [image_id(number)],
        "conversation_id": hashlib.md5(str(number).encode()).hexdigest(),
        "model": f"model-{number % 40}",
        "num_turns": 1,
        "conversation": [{"role": "user", "content": told[:150]}, {"role": "assistant", "content": told}],
        "language": "English",
        "user_id": hashlib.md5(str(number % 997).encode()).hexdigest()[:24],
        "tstamp": 1.7e9 + number,
        "is_preset": False,
        "preset_dataset": None,
        "categories": dict.fromkeys(ReleasedCategories.model_fields),
        "topic": f"topic {number % 40}",
        "topic_id": number % 40,
    }


def image_id(number: int) -> str:
    """The image id of a row."""
    return f"{number:032x}"


def image_store(folder: Path, numbers: Iterable[int]) -> Store:
    """A store with the images of these rows, 30 to 90 KB each, in parts as ingest writes them."""
    store, rows = Store.open(str(folder)), list(numbers)
    for start in range(0, len(rows), _PART):
        store.append("images", _images(rows[start : start + _PART]))
    return store


def _images(numbers: list[int]) -> pl.DataFrame:
    generators = [np.random.default_rng([9, number]) for number in numbers]
    rows = [
        {
            "image_id": image_id(n),
            "bytes": g.bytes(int(g.integers(30_000, 90_000))),
            "format": "png",
            "width": 1,
            "height": 1,
        }
        for n, g in zip(numbers, generators, strict=True)
    ]
    return pl.DataFrame(rows, schema=frame_schema(TABLES["images"].row))


def written_share(earlier: Path, later: Path) -> float:
    """Share of the bytes of a release in files that are not hard links to files of an earlier one."""
    known = {path.stat().st_ino for path in earlier.rglob("*")}
    files = [path.stat() for path in later.rglob("*") if path.is_file()]
    return sum(each.st_size for each in files if each.st_ino not in known) / sum(each.st_size for each in files)
