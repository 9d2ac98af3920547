"""Finds duplicate images in a folder, with the same comparison as for a release but without a store."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from schemas.policy import NearImages, SemanticImages
from schemas.signals import ImageColour, ImageHash
from tasks.dedup.near_images import cosine_pairs, near_hashes, near_images, representatives
from tasks.images.decode import ImageRejected, open_image
from tasks.images.measures import image_colour, image_hashes
from tasks.providers import Providers
from tasks.runtime.arrays import Vectors
from tasks.runtime.parallel import map_ordered
from tasks.runtime.progress import progress

LOOSE_SUFFIXES = {".png", ".apng", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".gif", ".bmp"}
UNREAD = {".avif", ".heic", ".heif", ".ico", ".jp2", ".jxl", ".svg", ".tif", ".tiff"}
"""Image formats that cannot be read: such files are reported as rejected unless their content has a format above."""
_COMPARED = dict.fromkeys(("image_id", "phash", "pdq", "grey", "chroma"), pl.String)


class MeasuredFile(NamedTuple):
    """Facts of one picture that are compared."""

    image_id: str
    hashes: ImageHash
    colour: ImageColour
    vector: Vectors | None
    """The embedding, if semantic pairs are asked for."""


class FilePair(NamedTuple):
    """Two files that show the same image."""

    a: str
    b: str
    relation: str
    """exact: equal pixels; perceptual: near-duplicates; semantic: only their embeddings are close."""
    distance: float
    """0 for equal pixels; bits between the 64-bit DCT hashes; for semantic pairs 1 - cosine of the embeddings."""


@dataclass(frozen=True)
class LooseDuplicates:
    """Duplicates in a folder; file names are relative to it."""

    images: int
    pairs: list[FilePair]
    """All pairs of files."""
    groups: list[list[str]]
    """Files with exact or perceptual matches, each group's representative first; semantic pairs are not grouped."""
    rejected: list[tuple[str, str]]
    """(file, reject reason) of files that are not usable images."""


def loose_duplicates(
    folder: Path, providers: Providers, workers: int, semantic: SemanticImages | None = None
) -> LooseDuplicates:
    """All duplicate pairs and groups of the images below `folder`; semantic pairs too when a radius is given."""
    files = sorted(
        path for path in folder.rglob("*") if path.suffix.lower() in LOOSE_SUFFIXES | UNREAD and path.is_file()
    )
    measure = partial(_measured, providers=providers if semantic else None)
    names: dict[str, list[str]] = {}
    seen: dict[str, MeasuredFile] = {}
    rejected: list[tuple[str, str]] = []
    with progress("images", len(files)) as advance:
        for file, measurement in zip(files, map_ordered(measure, files, workers), strict=True):
            name = file.relative_to(folder).as_posix()
            if isinstance(measurement, str):
                rejected.append((name, measurement))
            else:
                seen[measurement.image_id] = measurement
                names.setdefault(measurement.image_id, []).append(name)
            advance()
    exact = [FilePair(a, b, "exact", 0) for same in names.values() for a, b in combinations(same, 2)]
    near = _near(seen)
    pairs = exact + list(_file_pairs(names, near.select("image_a", "image_b", "phash_distance"), "perceptual"))
    if semantic:
        closer = {pair[:2] for pair in pairs}
        distant = _file_pairs(names, _semantic(seen, semantic), "semantic")
        pairs += [pair for pair in distant if pair[:2] not in closer]
    return LooseDuplicates(len(files) - len(rejected), sorted(pairs), _groups(names, near), rejected)


def _measured(file: Path, providers: Providers | None) -> MeasuredFile | str:
    """Facts of a file that are compared, its embedding with `providers` only; or the reason why it is rejected."""
    try:
        image = open_image(file.read_bytes())
    except ImageRejected as rejected:
        return rejected.reason
    vector = providers["image_embedding"].embed_images([image])[0] if providers else None
    return MeasuredFile(image.image_id, image_hashes(image), image_colour(image), vector)


def _near(seen: Mapping[str, MeasuredFile]) -> pl.DataFrame:
    radius = NearImages()
    rows = [{"image_id": file.image_id, **dict(file.hashes), **dict(file.colour)} for file in seen.values()]
    images = pl.DataFrame(rows, schema=_COMPARED).sort("image_id")
    return near_images(near_hashes(images, radius), images, radius, images)


def _semantic(seen: Mapping[str, MeasuredFile], radius: SemanticImages) -> pl.DataFrame:
    ids = sorted(seen)
    vectors = np.array([seen[image_id].vector for image_id in ids], np.float32) if ids else np.empty((0, 1), np.float32)
    i, j, cosines = cosine_pairs(vectors, radius.cosine_min)
    distances = [round(1 - cosine, 4) for cosine in cosines.tolist()]
    return pl.DataFrame({"image_a": [ids[n] for n in i], "image_b": [ids[n] for n in j], "distance": distances})


def _file_pairs(names: Mapping[str, list[str]], pairs: pl.DataFrame, relation: str) -> Iterator[FilePair]:
    """Every file of one image with every file of the other."""
    for a, b, distance in pairs.iter_rows():
        for one, other in product(names[a], names[b]):
            yield FilePair(min(one, other), max(one, other), relation, distance)


def _groups(names: Mapping[str, list[str]], near: pl.DataFrame) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for image_id, representative in representatives(names, near).items():
        groups.setdefault(representative, []).extend(names[image_id])
    return sorted(group for group in groups.values() if len(group) > 1)
