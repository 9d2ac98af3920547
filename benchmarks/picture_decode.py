"""CLIP tile, DCT hash and PDQ of picture files, against the packages that give them one by one.

imagededup and pdqhash are no part of the install; their rows need them on the import path:
`pip install --target DIR --no-deps imagededup pdqhash`, then `PYTHONPATH=.:DIR python -m benchmarks.picture_decode`.
"""

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import imagehash
import numpy as np
import PIL.Image

from benchmarks.pictures import picture_files
from benchmarks.timing import compare
from tasks.measure.perceptual_hash import hex_digits, pdq_bits, phash_bits
from tasks.pixels.pictures import Picture, decode_stored, open_picture
from tasks.pixels.resample_plan import Filter

SHORT, WHOLE, CROP = 224, (299, 224), (37, 0, 224, 224)
"""CLIP's tile of a picture of 1024 x 768: the short side becomes 224 pixels, the middle is kept."""
FLOOR = {
    "megapixels": 0.79,
    "bytes_touched_mb": 5.9,
    "multiply_adds_million": 16.8,
}
"""Of one picture: 2.4 MB of pixels written by the decoder and read once, 0.5 MB between the two directions written and
read; 9.8 million multiply-adds for the tile, 4.6 for the hash, 2.4 for the brightness, most of them as two of 16 bits.
Entropy decoding and the inverse DCT come before, in the decoder, and take two thirds of the time."""


def tile_and_hash(picture: Picture) -> tuple[np.ndarray, str]:
    """uint8 (224, 224, 3) and 16 hex digits."""
    return picture.resized(WHOLE, Filter.BICUBIC, CROP), hash_of(picture)


def hash_of(picture: Picture) -> str:
    """16 hex digits."""
    return hex_digits(phash_bits(picture.small_grey))


def _pillow_and_imagehash(file: Path) -> tuple[np.ndarray, str]:
    left, top, width, height = CROP
    large = PIL.Image.open(file).convert("RGB").resize(WHOLE, PIL.Image.Resampling.BICUBIC)
    tile = large.crop((left, top, left + width, top + height))
    return np.asarray(tile), str(imagehash.phash(PIL.Image.open(file)))


def _pillow_and_imagehash_of_one_decode(file: Path) -> None:
    picture = PIL.Image.open(file).convert("RGB")
    picture.resize(WHOLE, PIL.Image.Resampling.BICUBIC)
    imagehash.phash(picture)


def _same(one: tuple[np.ndarray, str], other: tuple[np.ndarray, str]) -> bool:
    return np.array_equal(one[0], other[0]) and one[1] == other[1]


def run() -> list[dict[str, Any]]:
    """Seconds for the same files; `equal` counts the pictures of which both gave the very same answer."""
    with tempfile.TemporaryDirectory() as folder:
        files = picture_files(Path(folder))
        return [*_tile_and_hash_rows(files), *_imagededup_row(files), *_pdq_row(files)]


def _tile_and_hash_rows(files: list[Path]) -> list[dict[str, Any]]:
    equal = sum(_same(tile_and_hash(open_picture(f.read_bytes())), _pillow_and_imagehash(f)) for f in files)

    def peer() -> None:
        for file in files:
            _pillow_and_imagehash(file)

    def shared() -> None:
        for file in files:
            _pillow_and_imagehash_of_one_decode(file)

    def decoded() -> None:
        for file in files:
            tile_and_hash(decode_stored(file.read_bytes(), "jpeg", ""))

    def opened() -> None:
        for file in files:
            tile_and_hash(open_picture(file.read_bytes()))

    name = "Pillow + imagehash, each opening the file"
    return [
        compare("pictures: tile and DCT hash", len(files), decoded, name, peer, equal=equal, **FLOOR),
        compare("pictures: the same, the peer decoding once", len(files), decoded, "one decode for both", shared),
        compare("pictures: tile, DCT hash and content id", len(files), opened, name, peer, equal=equal),
    ]


def _imagededup_row(files: list[Path]) -> list[dict[str, Any]]:
    if not importlib.util.find_spec("imagededup"):
        print("pictures: DCT hash against imagededup is skipped: it is not installed")
        return []
    from imagededup.methods import PHash

    encoder = PHash()

    def ours() -> None:
        for file in files:
            hash_of(decode_stored(file.read_bytes(), "jpeg", ""))

    def theirs() -> None:
        for file in files:
            encoder.encode_image(image_file=file)

    return [compare("pictures: DCT hash", len(files), ours, "imagededup PHash", theirs)]


def _pdq_row(files: list[Path]) -> list[dict[str, Any]]:
    if not importlib.util.find_spec("pdqhash"):
        print("pictures: PDQ against pdqhash is skipped: it is not installed")
        return []
    import pdqhash

    pictures = [open_picture(file.read_bytes()) for file in files]

    def ours() -> None:
        for picture in pictures:
            picture.__dict__.pop("columns", None)  # laying it on its side is part of the work
            pdq_bits(picture.columns)

    def theirs() -> None:
        for picture in pictures:
            pdqhash.compute(picture.rgb)

    equal = sum(np.array_equal(pdq_bits(p.columns)[0], pdqhash.compute(p.rgb)[0].astype(bool)) for p in pictures)
    return [compare("pictures: PDQ of decoded pixels", len(files), ours, "pdqhash", theirs, equal=equal)]


if __name__ == "__main__":
    run()
