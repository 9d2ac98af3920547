"""Duplicate pictures of a folder, found as a release finds them, without a store.

What a glimpse tells from all other pictures is not decoded whole; the others are, and what is said of them is exact.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from schemas.policy import NearPictures, SemanticPictures
from tasks.decide.near_pictures import near_hashes, near_pictures, representatives
from tasks.decide.semantic_search import semantic_pairs
from tasks.lookup.glimpses import Glimpse, glimpsed, maybe_near
from tasks.measure import PICTURE_SIGNALS
from tasks.measure.run import look_at
from tasks.pixels.pictures import PictureRejected, open_picture
from tasks.providers import Providers
from tasks.running.parallel import map_ordered
from tasks.running.progress import progress

Look = Glimpse | dict[str, Any] | str
"""Of one file: nearly what it looks like, all that is known of it, or why it is no usable picture."""
SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp"}
UNREAD = {".avif", ".heic", ".heif", ".ico", ".jp2", ".jxl", ".svg", ".tif", ".tiff"}
"""Pictures too; what is not really one of the others is named as left out."""


class Pair(NamedTuple):
    """Two files that show the same picture."""

    a: str
    b: str
    relation: str
    """exact: equal pixels; perceptual: they look the same; semantic: neither, but their embeddings are close."""
    distance: float
    """0 for equal pixels; bits between the 64-bit DCT hashes; for semantic pairs 1 - cosine of the embeddings."""


@dataclass(frozen=True)
class LooseDuplicates:
    """What was found in a folder; names are relative to it."""

    pictures: int
    pairs: list[Pair]
    """Every two files that show the same picture, also where several files hold the same pixels."""
    groups: list[list[str]]
    """Pictures that are the same or look the same, each group's representative first. Semantic pairs group nothing."""
    rejected: list[tuple[str, str]]
    """(file, reject reason) of files that are not usable pictures."""


def loose_duplicates(
    folder: Path, providers: Providers, workers: int, semantic: SemanticPictures | None = None
) -> LooseDuplicates:
    """All duplicate pairs and groups of the pictures below `folder`; semantic pairs too when a radius is given."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES | UNREAD and path.is_file())
    signals = [PICTURE_SIGNALS[name](providers) for name in ("image_hash", "image_embedding")[: 2 if semantic else 1]]
    now = datetime.now(UTC)

    def whole(content: bytes) -> Look:
        try:
            rows, done = look_at([open_picture(content)], signals, now)
        except PictureRejected as rejected:
            return rejected.reason
        if done.failures:
            return next(iter(done.failures))[1]
        (hashes,) = rows["image_hash"]
        vectors = [each["vector"] for each in rows.get("image_embedding", [])]
        return {"image_id": hashes["content_id"], **hashes, "vector": vectors[0] if vectors else None}

    def first(file: Path) -> Look:
        try:
            return whole(file.read_bytes()) if semantic else glimpsed(file.read_bytes())
        except PictureRejected as rejected:
            return rejected.reason

    looks = dict(zip(files, _all(first, files, workers, "pictures"), strict=True))
    again = _undecided(looks)
    looks |= zip(again, _all(lambda file: whole(file.read_bytes()), again, workers, "look-alikes"), strict=True)
    seen: dict[str, dict[str, Any]] = {}
    names: dict[str, list[str]] = {}
    rejected: list[tuple[str, str]] = []
    for file, look in looks.items():
        name = file.relative_to(folder).as_posix()
        if isinstance(look, str):
            rejected.append((name, look))
        elif isinstance(look, dict):
            seen[look["image_id"]] = look
            names.setdefault(look["image_id"], []).append(name)
    found = _found(names, seen, rejected)
    if semantic:
        found = replace(found, pairs=sorted([*found.pairs, *_semantic(names, seen, found, semantic)]))
    return replace(found, pictures=len(files) - len(rejected))


def _all(look: Callable[[Path], Look], files: Sequence[Path], workers: int, name: str) -> Iterator[Look]:
    with progress(name, len(files)) as advance:
        for found in map_ordered(look, files, workers):
            advance()
            yield found


def _undecided(looks: Mapping[Path, Look]) -> list[Path]:
    """Files that were only glimpsed at, though they may look like another."""
    glimpses = {file: look for file, look in looks.items() if isinstance(look, Glimpse)}
    near = maybe_near(list(glimpses.values()), NearPictures())
    return [file for place, file in enumerate(glimpses) if place in near]


def _found(
    names: dict[str, list[str]],
    seen: dict[str, dict[str, Any]],
    rejected: Sequence[tuple[str, str]],
) -> LooseDuplicates:
    radius = NearPictures()
    columns = ["image_id", "phash", "pdq", "grey"]
    pictures = pl.DataFrame(
        [{c: row[c] for c in columns} for row in seen.values()], schema_overrides={"image_id": pl.String}
    )
    pairs_of_hashes = near_hashes(pictures.sort("image_id"), radius) if seen else None
    near = None if pairs_of_hashes is None else near_pictures(pairs_of_hashes, pictures, radius)
    pairs = [Pair(a, b, "exact", 0) for same in names.values() for a, b in combinations(same, 2)]
    chosen = {image_id: image_id for image_id in names}
    if near is not None:
        for a, b, distance in near.select("image_a", "image_b", "phash_distance").iter_rows():
            for one, other in product(names[a], names[b]):
                pairs.append(Pair(min(one, other), max(one, other), "perceptual", distance))
        chosen = representatives(names, near)
    groups: dict[str, list[str]] = {}
    for image_id, representative in chosen.items():
        groups.setdefault(representative, []).extend(names[image_id])
    together = [group for group in groups.values() if len(group) > 1]
    return LooseDuplicates(sum(map(len, names.values())), sorted(pairs), sorted(together), list(rejected))


def _semantic(
    names: dict[str, list[str]], seen: dict[str, dict[str, Any]], found: LooseDuplicates, radius: SemanticPictures
) -> Iterator[Pair]:
    """Pairs that only the embeddings find."""
    ids = pl.Series(sorted(seen), dtype=pl.String)
    if len(ids) < 2:
        return
    closer = {(pair.a, pair.b) for pair in found.pairs}
    vectors = np.array([seen[image_id]["vector"] for image_id in ids], np.float32)
    for a, b, cosine in semantic_pairs(ids, vectors, radius).iter_rows():
        for one, other in product(names[a], names[b]):
            if (min(one, other), max(one, other)) not in closer:
                yield Pair(min(one, other), max(one, other), "semantic", round(1 - cosine, 4))
