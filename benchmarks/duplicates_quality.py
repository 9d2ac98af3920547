"""How well duplicates are found: recall for each kind of change, and wrong pairs.

    python -m benchmarks.duplicates_quality DATA

DATA holds folders `photos` and `art` (images to make copies of), `near-dup` (labelled pairs), `exif-orientation` (one
image in nine files), `ocr-documents` (receipts, and a list of different ones whose DCT hashes collide),
`charts-maps-diagrams` and `ui-screens` (images that look alike and are not). Beside each figure of ours stands
imagehash's: its 64-bit DCT hash within 8 bits, alone.
"""

import argparse
import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import imagehash
import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageEnhance
import PIL.ImageFilter
import PIL.ImageOps
import polars as pl

from benchmarks.privacy_quality import figure
from schemas.policy import NearImages, SemanticImages
from tasks.dedup.colours import chromas_from_hex
from tasks.dedup.near_images import cosine_pairs, near_hashes, near_images
from tasks.images.decode import DecodedImage, ImageRejected, open_image
from tasks.images.measures import image_colour
from tasks.providers import Providers
from tasks.signals.registry import signal_of

IMAGES = {".jpg", ".jpeg", ".png", ".webp", ".bmp"}
EVERY = 2
"""Copies are made of every second image."""
PEER = "imagehash"
HARD = ("ocr-documents", "charts-maps-diagrams", "ui-screens")
Image = PIL.Image.Image
Pairs = set[tuple[str, str]]


def _jpeg(image: Image) -> Image:
    sink = io.BytesIO()
    image.save(sink, "JPEG", quality=30)
    return PIL.Image.open(sink)


def _crop(share: float) -> Callable[[Image], Image]:
    def crop(image: Image) -> Image:
        wide, high = round(image.width * share / 2), round(image.height * share / 2)
        return image.crop((wide, high, image.width - wide, image.height - high))

    return crop


def _smaller(factor: int) -> Callable[[Image], Image]:
    return lambda image: image.resize((max(1, image.width // factor), max(1, image.height // factor)))


def _labelled(image: Image) -> Image:
    made = image.copy()
    PIL.ImageDraw.Draw(made).text((8, image.height - 18), "kitebase", (240, 240, 240))
    return made


def _turned_hue(degrees: int) -> Callable[[Image], Image]:
    def turn(image: Image) -> Image:
        hue, saturation, value = image.convert("HSV").split()
        turned = hue.point(lambda level: (level + round(degrees * 256 / 360)) % 256)
        return PIL.Image.merge("HSV", (turned, saturation, value)).convert("RGB")

    return turn


RECOLOURED = {f"hue turned by {degrees} degrees": _turned_hue(degrees) for degrees in (60, 120, 180)}
"""Not copies: what is asked of their colours has another answer."""
COPIES: dict[str, Callable[[Image], Image]] = {
    "JPEG quality 30": _jpeg,
    "half the size": _smaller(2),
    "a quarter of the size": _smaller(4),
    "grey": lambda image: image.convert("L").convert("RGB"),
    "blurred, sigma 2": lambda image: image.filter(PIL.ImageFilter.GaussianBlur(2)),
    "brighter by 1.3": lambda image: PIL.ImageEnhance.Brightness(image).enhance(1.3),
    "a word in the corner": _labelled,
    "2 % cropped away": _crop(0.02),
    "10 % cropped away": _crop(0.1),
    "mirrored": PIL.ImageOps.mirror,
    "turned by 5 degrees": lambda image: image.rotate(5),
    "turned by 90 degrees": lambda image: image.rotate(90, expand=True),
}


class Seen(NamedTuple):
    """Hashes and vectors of some images, sorted by name."""

    images: dict[str, str]
    """Name -> content id."""
    facts: pl.DataFrame
    """image_id, phash, pdq, grey, chroma, vector, peer (imagehash's digits); one row a content id."""


def measure(images: Iterable[tuple[str, DecodedImage]], providers: Providers) -> Seen:
    """Hashes and vectors of named images."""
    signals = {name: signal_of(name, providers) for name in ("image_hash", "image_colour", "image_embedding")}
    ids, rows = {}, {}
    for name, image in images:
        ids[name] = image.image_id
        (hashes,), (colour,), (embedding,) = (signal.values([image]) for signal in signals.values())
        peer = str(imagehash.phash(image.pil))
        rows[image.image_id] = {
            "image_id": image.image_id,
            **hashes.model_dump(),
            **colour.model_dump(),
            **embedding.model_dump(),
            "peer": peer,
        }
    return Seen(ids, pl.DataFrame(list(rows.values())).sort("image_id"))


def relations(seen: Seen) -> dict[str, Pairs]:
    """perceptual, semantic and imagehash -> all pairs of content ids, each in order; equal pixels are in none."""
    radius = NearImages()
    perceptual = near_images(near_hashes(seen.facts, radius), seen.facts, radius, seen.facts)
    ids, vectors = seen.facts["image_id"], np.array(seen.facts["vector"].to_list(), np.float32)
    first, second, _ = cosine_pairs(vectors, SemanticImages().cosine_min)
    peer = np.array([int(digits, 16) for digits in seen.facts["peer"]], np.uint64)
    i, j = np.nonzero(np.triu(np.bitwise_count(peer[:, None] ^ peer[None, :]) <= radius.phash_distance_max, 1))
    ends = {"perceptual": set(perceptual.select("image_a", "image_b").iter_rows())}
    for name, a, b in (("semantic", first, second), (PEER, i, j)):
        ends[name] = set(zip(ids.gather(a), ids.gather(b), strict=True))
    return ends


def _paired(seen: Seen, pairs: Pairs, one: str, other: str) -> bool:
    a, b = seen.images[one], seen.images[other]
    return a == b or (min(a, b), max(a, b)) in pairs


def recall(name: str, seen: Seen, wanted: Sequence[tuple[str, str]], listed: bool = True) -> list[dict[str, Any]]:
    """A row for each relation: how many of the wanted pairs it finds, and which it misses."""
    rows = []
    for relation, pairs in relations(seen).items():
        missed = [pair for pair in wanted if not _paired(seen, pairs, *pair)]
        shown = [" - ".join(pair) for pair in missed] if listed and relation == "perceptual" else []
        rows.append(figure(f"{name}: {relation}", len(wanted) - len(missed), len(wanted), shown))
    return rows


def copies(data: Path, providers: Providers) -> Iterator[dict[str, Any]]:
    """Recall on copies of photographs and paintings, for each kind of change."""
    originals = dict(list(_opened(data, "photos", "art"))[::EVERY])
    for name, change in COPIES.items():
        made = {f"copy of {each}": _again(change(image.pil)) for each, image in originals.items()}
        yield from recall(
            name, measure({**originals, **made}.items(), providers), list(zip(originals, made, strict=True)), False
        )


def recoloured(data: Path, providers: Providers) -> Iterator[dict[str, Any]]:
    """Photographs and paintings paired with a recoloured one; only those that the bound was not chosen on."""
    originals = {name: image for name, image in list(_opened(data, "photos", "art"))[1::EVERY] if _is_colourful(image)}
    for change_name, change in RECOLOURED.items():
        changed = {f"recoloured {name}": _again(change(image.pil)) for name, image in originals.items()}
        seen = measure({**originals, **changed}.items(), providers)
        ends = list(zip(originals, changed, strict=True))
        for relation, pairs in relations(seen).items():
            wrong = [pair for pair in ends if _paired(seen, pairs, *pair)]
            yield figure(f"{change_name}, wrongly paired: {relation}", len(wrong), len(ends), ())


def _is_colourful(image: DecodedImage) -> bool:
    """Whether any cell of the chroma thumbnail has more colour than the bound."""
    chroma = chromas_from_hex([image_colour(image).chroma])
    return bool(np.linalg.norm(chroma, axis=2).max() > NearImages().colour_distance_max)


def labelled(data: Path, providers: Providers) -> Iterator[dict[str, Any]]:
    """Recall on pairs that people labelled, and pairs of different images."""
    folder = data / "near-dup"
    pairs = [(row["image"], row["duplicate"], row["same_picture"]) for row in _rows(folder / "labelled-pairs.csv")]
    figures = [(row["image"], row["duplicate"]) for row in _rows(folder / "diagram-pairs.csv")]
    seen = measure(((name.removeprefix("near-dup/"), p) for name, p in _opened(data, "near-dup")), providers)
    yield from recall("labelled pairs", seen, [(a, b) for a, b, same in pairs if same == "yes"])
    yield from recall("mirrored or turned, labelled", seen, [(a, b) for a, b, same in pairs if same == "decide"])
    yield from recall("figure and its larger version", seen, figures)
    yield _unlabelled(seen, [(a, b) for a, b, _ in pairs] + figures)
    exif = measure(_opened(data, "exif-orientation"), providers)
    yield from recall("one photograph, nine orientations", exif, list(pairwise(exif.images)))


def _unlabelled(seen: Seen, known: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Pairs without a label, to check by eye."""
    names = {image_id: name for name, image_id in seen.images.items()}
    ends = {frozenset((seen.images[a], seen.images[b])) for a, b in known if {a, b} <= seen.images.keys()}
    found = [pair for pair in sorted(relations(seen)["perceptual"]) if frozenset(pair) not in ends]
    return figure(
        "pairs without a label: perceptual", len(found), len(names), (f"{names[a]} - {names[b]}" for a, b in found)
    )


def different(data: Path, providers: Providers) -> Iterator[dict[str, Any]]:
    """Pairs of different images that look alike: counts for every relation, and a list of the perceptual ones."""
    seen = measure(_opened(data, *HARD), providers)
    found = relations(seen)
    names = {image_id: name for name, image_id in seen.images.items()}
    collide = [
        (f"ocr-documents/{r['receipt']}", f"ocr-documents/{r['other']}")
        for r in _rows(data / "ocr-documents" / "receipt-collisions.csv")
    ]
    for relation, pairs in found.items():
        false = [pair for pair in collide if _paired(seen, pairs, *pair)]
        yield figure(
            f"different receipts paired: {relation}",
            len(false),
            len(collide),
            map(" - ".join, false) if relation == "perceptual" else (),
        )
        shown = sorted(f"{names[a]} - {names[b]}" for a, b in pairs) if relation == "perceptual" else ()
        yield figure(f"hard negatives, pairs an image: {relation}", len(pairs), len(names), shown)


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _again(image: Image) -> DecodedImage:
    sink = io.BytesIO()
    image.convert("RGB").save(sink, "PNG", compress_level=1)
    return open_image(sink.getvalue())


def _opened(data: Path, *folders: str) -> Iterator[tuple[str, DecodedImage]]:
    """Name below DATA and decoded image of every usable file."""
    for file in sorted(
        each for folder in folders for each in (data / folder).rglob("*") if each.suffix.lower() in IMAGES
    ):
        try:
            yield file.relative_to(data).as_posix(), open_image(file.read_bytes())
        except ImageRejected:
            continue


def main(data: Path) -> list[dict[str, Any]]:
    """Every figure."""
    providers = Providers()
    return [
        *different(data, providers),
        *labelled(data, providers),
        *recoloured(data, providers),
        *copies(data, providers),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.duplicates_quality", description=__doc__)
    parser.add_argument("data", type=Path)
    given = parser.parse_args()
    if not (given.data / "near-dup").is_dir():
        parser.error(f"DATA {str(given.data)!r} has no folder near-dup; give one with the folders named above")
    main(given.data)
