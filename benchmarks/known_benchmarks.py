"""Pictures of known benchmarks in chats: the speed against a million hashes, and what is found and wrongly found.

    python -m benchmarks.known_benchmarks DATA

The speed is a row of results.jsonl: 100,000 pictures against a million hashes, all drawn. DATA adds recall and false
alarms on real pictures: `mathv` and `owleval` are the benchmarks, copies of every second of their pictures the chats;
the others, `photos` and `charts-maps-diagrams` are no copies. Beside it stands imagehash's DCT hash within 8 bits.
"""

import argparse
import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faiss
import imagehash
import numpy as np
import PIL.Image
import PIL.ImageEnhance
import PIL.ImageOps
import polars as pl

from benchmarks.privacy_quality import figure
from benchmarks.timing import compare
from tasks.dedup.known_images import (
    KNOWN_THUMBNAIL_SIDE,
    VIEW,
    close_by_embedding,
    lies_over,
    shown_by_hashes,
    views_of,
)
from tasks.images.decode import DecodedImage, Filter, ImageRejected, open_image
from tasks.images.measures import image_hashes, image_inside
from tasks.providers import Providers

PICTURES, INDEX, PLANTED = 100_000, 1_000_000, 1_000
"""Pictures of chats, pictures of benchmarks, and how many of the first are copies with three bits changed."""
RADIUS, QUERIES = 8, 500
"""Bits of pHash; pictures that faiss searches for, whose seconds are scaled to all."""
SUFFIXES = {".jpg", ".jpeg", ".png"}
Image = PIL.Image.Image


def _digits(hashes: np.ndarray[Any, Any]) -> list[str]:
    """Hexadecimal digits of uint8 (n, bytes)."""
    return [row.tobytes().hex() for row in hashes]


def run() -> list[dict[str, Any]]:
    """CPU seconds of the search by pHash, PDQ and thumbnail; `planted_found` of 1,000 planted copies."""
    rng = np.random.default_rng(0)
    index = rng.integers(0, 256, (INDEX, 40), np.uint8)  # 8 bytes of pHash, 32 of PDQ
    pictures = rng.integers(0, 256, (PICTURES, 40), np.uint8)
    pictures[:PLANTED] = index[:PLANTED]
    for column in (0, 3, 20):
        pictures[:PLANTED, column] ^= 1
    grey = rng.integers(0, 256, 1024, np.uint8).tobytes().hex()
    frames = [
        pl.DataFrame(
            {
                "content_id": [f"{mark}{number:07}" for number in range(len(hashes))],
                "phash": _digits(hashes[:, :8]),
                "pdq": _digits(hashes[:, 8:]),
            }
        )
        for mark, hashes in (("c", pictures), ("k", index))
    ]
    no_inside = pl.DataFrame(schema={"content_id": pl.String, "phash": pl.String, "pdq": pl.String})
    sides = [views_of(frame, no_inside, mark) for frame, mark in zip(frames, ("image ", "picture "), strict=True)]
    found = 0

    def ours() -> None:
        nonlocal found
        found = shown_by_hashes(*sides, lambda ends: _one_grey(ends, grey)).height

    def theirs() -> None:
        faiss_index.range_search(np.ascontiguousarray(pictures[:QUERIES, :8]), RADIUS + 1)  # its radius is exclusive

    faiss_index = faiss.IndexBinaryFlat(64)
    faiss_index.add(np.ascontiguousarray(index[:, :8]))
    name = f"known benchmarks: {PICTURES:,} pictures, {INDEX:,} known ones"
    row = compare(name, PICTURES, ours, "faiss, pHash alone, exact", theirs, PICTURES / QUERIES, planted=PLANTED)
    return [row | {"planted_found": found}]


def _one_grey(ends: pl.Series, grey: str) -> pl.DataFrame:
    return pl.DataFrame({"view": ends, "grey": [grey] * len(ends)}, schema={"view": VIEW["view"], "grey": pl.String})


def _encoded(picture: Image, kind: str = "PNG", **options: Any) -> bytes:
    sink = io.BytesIO()
    picture.save(sink, kind, **options)
    return sink.getvalue()


def siblings(picture: Image, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Copies as people make them: (what was done, file)."""
    wide, high = picture.size
    scale = rng.uniform(0.4, 0.8)
    yield "resized", _encoded(picture.resize((max(8, int(wide * scale)), max(8, int(high * scale)))))
    yield "re-encoded", _encoded(picture, "JPEG", quality=rng.randint(25, 60))
    for most in (2, 4, 6):
        cut = [rng.uniform(0, 2 * most / 100) for _ in range(4)]
        box = (int(wide * cut[0]), int(high * cut[1]), int(wide * (1 - cut[2])), int(high * (1 - cut[3])))
        yield f"cut by {most} % a side on average", _encoded(picture.crop(box))
    border = max(2, int(max(wide, high) * rng.uniform(0.03, 0.08)))
    yield "bordered", _encoded(PIL.ImageOps.expand(picture, border, rng.choice(["white", "black", "#4060a0"])))
    yield "paler", _encoded(PIL.ImageEnhance.Color(picture).enhance(0.3))
    tint = PIL.Image.new("RGB", picture.size, rng.choice(["#ff8800", "#2266ff"]))
    yield "tinted", _encoded(PIL.Image.blend(picture, tint, rng.uniform(0.1, 0.3)))
    margins = [int(max(wide, high) * rng.uniform(0.1, 0.35)) for _ in range(4)]
    size = (wide + margins[0] + margins[1], high + margins[2] + margins[3])
    page = PIL.Image.new("RGB", size, rng.choice(["white", "#202124", "#f0f0f0"]))
    page.paste(picture, (margins[0], margins[2]))
    yield "screenshot with margins", _encoded(page, "JPEG", quality=85)


class _Pictures:
    """Pictures with what they are found by."""

    def __init__(self, named: dict[str, bytes], providers: Providers) -> None:
        self.images: dict[str, DecodedImage] = {}
        for name, content in named.items():
            try:
                self.images[name] = open_image(content)
            except ImageRejected:
                continue
        rows, within, self.greys = [], [], dict[str, str | None]()
        for name, picture in self.images.items():
            hashes, inside = image_hashes(picture), image_inside(picture)
            rows.append({"content_id": name, "phash": hashes.phash, "pdq": hashes.pdq})
            within.append({"content_id": name, "phash": inside.phash, "pdq": inside.pdq})
            self.greys |= {f"w:{name}": hashes.grey, f"i:{name}": inside.grey}
        columns = {"content_id": pl.String, "phash": pl.String, "pdq": pl.String}
        self.hashes, self.inside = pl.DataFrame(rows, columns), pl.DataFrame(within, columns)
        pictures, embedder = [*self.images.values()], providers["image_embedding"]
        vectors = [
            vector
            for start in range(0, len(pictures), 64)
            for vector in embedder.embed_images(pictures[start : start + 64])
        ]
        self.vectors = np.array(vectors, np.float32)
        self.peer = {name: imagehash.phash(picture.pil) for name, picture in self.images.items()}

    @property
    def names(self) -> pl.Series:
        """Names, in the order of the vectors."""
        return pl.Series("image_id", [*self.images])


def known(chats: _Pictures, index: _Pictures) -> set[tuple[str, str]]:
    """(picture of a chat, picture of a benchmark) that are found."""
    sides = [views_of(each.hashes, each.inside, mark) for each, mark in ((chats, "c "), (index, "k "))]
    greys = {
        f"{mark}{view}": grey for each, mark in ((chats, "c "), (index, "k ")) for view, grey in each.greys.items()
    }
    by_hashes = shown_by_hashes(*sides, lambda ends: pl.DataFrame({"view": ends, "grey": [greys[end] for end in ends]}))
    pairs = {*by_hashes.select("image_id", "picture").iter_rows()}
    hashed = {name for name, _ in pairs}
    close = close_by_embedding(chats.names, chats.vectors, [(index.names, index.vectors)])
    for name, picture, _ in close.iter_rows():
        if name not in hashed:
            thumbnails = [_thumbnail(chats.images[name]), _thumbnail(index.images[picture])]
            if lies_over(*thumbnails):
                pairs.add((name, picture))
    return pairs


def _thumbnail(image: DecodedImage) -> Any:
    return np.asarray(image.pil.convert("L").resize((KNOWN_THUMBNAIL_SIDE, KNOWN_THUMBNAIL_SIDE), Filter.LANCZOS))


def main(data: Path) -> list[dict[str, Any]]:
    """Recall for each kind of copy, and pictures that are wrongly known."""
    providers, rng = Providers(), random.Random(1)
    files = [file for folder in ("mathv", "owleval") for file in sorted((data / folder / "images").iterdir())]
    originals = {file.stem + file.parent.parent.name: file.read_bytes() for file in files if file.suffix in SUFFIXES}
    index = _Pictures(dict([*originals.items()][::2]), providers)
    named = {
        (change, name): content
        for name in [*index.images][::2]
        for change, content in siblings(index.images[name].pil, rng)
    }
    chats = _Pictures({f"{change}/{name}": content for (change, name), content in named.items()}, providers)
    pairs = known(chats, index)
    rows = []
    for change in dict.fromkeys(change for change, _ in named):
        wanted = [name for kind, name in named if kind == change and f"{change}/{name}" in chats.images]
        missed = [name for name in wanted if (f"{change}/{name}", name) not in pairs]
        rows.append(figure(f"{change}: known", len(wanted) - len(missed), len(wanted), missed))
        peer = sum(chats.peer[f"{change}/{name}"] - index.peer[name] <= 8 for name in wanted)
        rows.append(figure(f"{change}: imagehash", peer, len(wanted), ()))
    others = dict([*originals.items()][1::2])
    for folder in ("photos", "charts-maps-diagrams"):
        others |= {
            file.stem: file.read_bytes() for file in sorted((data / folder).iterdir()) if file.suffix in SUFFIXES
        }
    strangers = _Pictures(others, providers)
    wrong = sorted(known(strangers, index))
    rows.append(figure("other pictures wrongly known", len(wrong), len(strangers.images), map(" - ".join, wrong)))
    peers = sum(
        any(hashed - known_hash <= 8 for known_hash in index.peer.values()) for hashed in strangers.peer.values()
    )
    rows.append(figure("other pictures wrongly known: imagehash", peers, len(strangers.images), ()))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.known_benchmarks", description=__doc__)
    parser.add_argument("data", type=Path)
    given = parser.parse_args()
    if not (given.data / "mathv").is_dir():
        parser.error(f"DATA {str(given.data)!r} has no folder mathv; give one with the folders named above")
    main(given.data)
