"""Duplicate images of a folder, found by the same comparison as a release's, without a store."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from schemas.policy import NearImages, SemanticImages
from tasks.dedup.cosine import Vectors, cosine_pairs
from tasks.dedup.near_images import near_hashes, near_images, representatives
from tasks.images.decode import ImageRejected, open_image
from tasks.images.hashes import image_hashes
from tasks.providers import Providers
from tasks.runtime.parallel import map_ordered
from tasks.runtime.progress import progress

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp"}
UNREAD = {".avif", ".heic", ".heif", ".ico", ".jp2", ".jxl", ".svg", ".tif", ".tiff"}
"""Images too; what is not really one of the others is reported as left out."""
_HASHES = {"image_id": pl.String, "phash": pl.String, "pdq": pl.String, "grey": pl.String}


class Pair(NamedTuple):
    """Two files that show the same image."""

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
    """Every two files that show the same image, also where several files hold the same pixels."""
    groups: list[list[str]]
    """Images that are the same or look the same, each group's representative first. Semantic pairs group nothing."""
    rejected: list[tuple[str, str]]
    """(file, reject reason) of files that are not usable images."""


class _Seen(NamedTuple):
    """One decoded file."""

    image_id: str
    hashes: tuple[str, str, str, str]
    """image_id, phash, pdq, grey."""
    vector: Vectors | None


def loose_duplicates(
    folder: Path, providers: Providers, workers: int, semantic: SemanticImages | None = None
) -> LooseDuplicates:
    """All duplicate pairs and groups of the images below `folder`; semantic pairs too when a radius is given."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES | UNREAD and path.is_file())
    look = _looker(providers, embed=semantic is not None)
    names: dict[str, list[str]] = {}
    seen: dict[str, _Seen] = {}
    rejected: list[tuple[str, str]] = []
    with progress("pictures", len(files)) as advance:
        for file, found in zip(files, map_ordered(look, files, workers), strict=True):
            name = file.relative_to(folder).as_posix()
            if isinstance(found, str):
                rejected.append((name, found))
            else:
                seen[found.image_id] = found
                names.setdefault(found.image_id, []).append(name)
            advance()
    exact = [Pair(a, b, "exact", 0) for same in names.values() for a, b in combinations(same, 2)]
    near = _near(seen)
    pairs = exact + list(_file_pairs(names, near.select("image_a", "image_b", "phash_distance"), "perceptual"))
    if semantic:
        closer = {pair[:2] for pair in pairs}
        distant = _file_pairs(names, _semantic(seen, semantic), "semantic")
        pairs += [pair for pair in distant if pair[:2] not in closer]
    return LooseDuplicates(len(files) - len(rejected), sorted(pairs), _groups(names, near), rejected)


def _looker(providers: Providers, embed: bool) -> Callable[[Path], _Seen | str]:
    """Hashes, and the embedding if asked for, of one file; or why it is no usable image."""

    def look(file: Path) -> _Seen | str:
        try:
            image = open_image(file.read_bytes())
        except ImageRejected as rejected:
            return rejected.reason
        hashes = image_hashes(image)
        vector = providers["image_embedding"].embed_images([image])[0] if embed else None
        return _Seen(image.image_id, (image.image_id, hashes.phash, hashes.pdq, hashes.grey), vector)

    return look


def _near(seen: Mapping[str, _Seen]) -> pl.DataFrame:
    radius = NearImages()
    images = pl.DataFrame([each.hashes for each in seen.values()], schema=_HASHES, orient="row").sort("image_id")
    return near_images(near_hashes(images, radius), images, radius)


def _semantic(seen: Mapping[str, _Seen], radius: SemanticImages) -> pl.DataFrame:
    ids = sorted(seen)
    vectors = np.array([seen[image_id].vector for image_id in ids], np.float32).reshape(len(ids), -1)
    i, j, cosines = cosine_pairs(vectors, radius.cosine_min)
    distances = [round(1 - cosine, 4) for cosine in cosines.tolist()]
    return pl.DataFrame({"image_a": [ids[n] for n in i], "image_b": [ids[n] for n in j], "distance": distances})


def _file_pairs(names: Mapping[str, list[str]], pairs: pl.DataFrame, relation: str) -> Iterator[Pair]:
    """Every file of one image with every file of the other."""
    for a, b, distance in pairs.iter_rows():
        for one, other in product(names[a], names[b]):
            yield Pair(min(one, other), max(one, other), relation, distance)


def _groups(names: Mapping[str, list[str]], near: pl.DataFrame) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for image_id, representative in representatives(names, near).items():
        groups.setdefault(representative, []).extend(names[image_id])
    return sorted(group for group in groups.values() if len(group) > 1)
