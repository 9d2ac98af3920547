"""Duplicate pictures of a folder, found exactly as a release finds them, without a store."""

from collections.abc import Iterator, Sequence
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
from tasks.measure import PICTURE_SIGNALS
from tasks.measure.run import look_at
from tasks.parallel import map_ordered
from tasks.pictures import PictureRejected, open_picture
from tasks.progress import progress
from tasks.providers import Providers

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp"}


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
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    signals = [PICTURE_SIGNALS[name](providers) for name in ("image_hash", "image_embedding")[: 2 if semantic else 1]]
    now = datetime.now(UTC)

    def look(file: Path) -> tuple[str, dict[str, Any] | str]:
        name = file.relative_to(folder).as_posix()
        try:
            rows, done = look_at([open_picture(file.read_bytes())], signals, now)
        except PictureRejected as rejected:
            return name, rejected.reason
        if done.failures:
            return name, next(iter(done.failures))[1]
        (hashes,) = rows["image_hash"]
        vectors = [each["vector"] for each in rows.get("image_embedding", [])]
        return name, {"image_id": hashes["content_id"], **hashes, "vector": vectors[0] if vectors else None}

    seen: dict[str, dict[str, Any]] = {}
    names: dict[str, list[str]] = {}
    rejected: list[tuple[str, str]] = []
    with progress("pictures", len(files)) as advance:
        for name, found in map_ordered(look, files, workers):
            advance()
            if isinstance(found, str):
                rejected.append((name, found))
            else:
                seen[found["image_id"]] = found
                names.setdefault(found["image_id"], []).append(name)
    looked = _found(names, seen, rejected)
    if semantic:
        looked = replace(looked, pairs=sorted([*looked.pairs, *_semantic(names, seen, looked, semantic)]))
    return looked


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
