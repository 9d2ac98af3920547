"""Duplicates of a folder of JPEG files, as `curate duplicates` finds them, against imagededup.

imagededup is no part of the install: `pip install --target DIR --no-deps imagededup`, then
`PYTHONPATH=.:DIR python -m benchmarks.duplicates_folder [FOLDER]`. Without FOLDER it cuts 200 pictures of 1024 x 768
out of photographs. The peer's hashes are computed in this process, where its seconds are counted, and searched within
8 bits in others, where they are not; ours are confirmed by two more measures.
"""

import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import skimage

from benchmarks.pictures import NAMES
from benchmarks.timing import compare
from schemas.policy import NearPictures
from tasks.lookup.loose_duplicates import loose_duplicates
from tasks.providers import Providers

PICTURES = 200
SIZE = (1024, 768)


def cut_out(folder: Path) -> None:
    """Parts of photographs, each a third to two thirds as wide as its photograph."""
    generator, source = np.random.default_rng(0), Path(skimage.__file__).parent / "data"
    photographs = [PIL.Image.open(source / name).convert("RGB") for name in NAMES]
    for number in range(PICTURES):
        picture = photographs[number % len(photographs)]
        width = generator.uniform(1 / 3, 2 / 3) * min(picture.width, picture.height * 4 / 3)
        height = width * SIZE[1] / SIZE[0]
        left, top = generator.uniform(0, picture.width - width), generator.uniform(0, picture.height - height)
        part = picture.resize(SIZE, PIL.Image.Resampling.BICUBIC, (left, top, left + width, top + height))
        part.save(folder / f"{number}.jpg", quality=88)


def run(folder: Path | None = None) -> list[dict[str, Any]]:
    """Seconds for the same folder; `pairs` of ours and of the peer's."""
    if not importlib.util.find_spec("imagededup"):
        print("duplicates of a folder: skipped, imagededup is not installed")
        return []
    with tempfile.TemporaryDirectory() as made:
        if folder is None:
            cut_out(Path(made))
        return [_row(folder or Path(made))]


def _row(folder: Path) -> dict[str, Any]:
    from imagededup.methods import PHash

    encoder, providers, radius = PHash(verbose=False), Providers(), NearPictures().phash_distance_max

    def theirs() -> Any:
        hashes = {str(file): encoder.encode_image(file) for file in folder.rglob("*") if file.is_file()}
        hashes = {name: digits for name, digits in hashes.items() if digits}
        return encoder.find_duplicates(encoding_map=hashes, max_distance_threshold=radius, num_dist_workers=0)

    found = loose_duplicates(folder, providers, workers=1)
    pairs, others = len(found.pairs), sum(map(len, theirs().values())) // 2
    name, peer = "duplicates of a folder", "imagededup PHash, encode and find"
    ours = lambda: loose_duplicates(folder, providers, workers=1)  # noqa: E731
    return compare(name, found.pictures, ours, peer, theirs, pairs=pairs, peer_pairs=others)


if __name__ == "__main__":
    run(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
