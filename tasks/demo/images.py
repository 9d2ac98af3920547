"""Images of the demo: folders of a server's images and presets, and the pool for ordinary traffic."""

import hashlib
import io
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import PIL.Image

from tasks.demo.drawings import FAMILIES
from tasks.demo.records import Era
from tasks.demo.words import chance, topics
from tasks.drawing.canvas import DrawnImage, photographs, view

_PNG_EFFORT = 3
_JPEG_QUALITY, _PRESET_QUALITY = 88, 90
_EARLY_EVERY, _BOTH_EVERY = 4, 9
"""Every fourth image is of the early eras and every ninth of all eras; the others are of the last era."""
_PRESETS_OF_TWENTY = (10, 13, 18)
"""Numbers of the images, modulo 20, that are presets: 15 %, as in VisionArena-Chat (arXiv 2412.08687, section 3.1).
None is among the first ten, so that a tiny arena has only ordinary images."""


class ImageFolder:
    """The folder `serve_images`; images are named and encoded as by the server of each era."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)

    def save(self, image: PIL.Image.Image, era: Era, exif: PIL.Image.Exif | None = None) -> str:
        """Store an upload; returns its logged name, the MD5 of its RGBA pixels. `exif` is only written to a JPEG."""
        pixels, sink = image.convert("RGBA"), io.BytesIO()
        name = hashlib.md5(pixels.tobytes(), usedforsecurity=False).hexdigest()
        if era is Era.PNG:
            pixels.save(sink, "PNG", compress_level=_PNG_EFFORT)
        else:
            image.convert("RGB").save(sink, "JPEG", quality=_JPEG_QUALITY, exif=exif or b"")
        self.store(f"{name}.{'png' if era is Era.PNG else 'jpg'}", sink.getvalue())
        return name

    def store(self, file: str, content: bytes) -> None:
        """Write any bytes as a file of the folder."""
        (self._folder / file).write_bytes(content)


class PresetFolder:
    """The folder `presets`, for the server's "random example" button: JPEG files and an index."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._index: list[dict[str, str]] = []
        folder.mkdir(parents=True)

    def add(self, image: PIL.Image.Image, dataset: str) -> Path:
        """Store an image and return its file."""
        path = f"{dataset.lower()}_{len(self._index)}.jpg"
        image.convert("RGB").save(self._folder / path, "JPEG", quality=_PRESET_QUALITY)
        self._index.append({"dataset": dataset, "question": "", "path": path})
        return self._folder / path

    def close(self) -> None:
        """Write the index."""
        (self._folder / "presets.json").write_text(json.dumps(self._index, indent=1))


class PoolImage(NamedTuple):
    """One image that conversations can be about."""

    name: str
    """Logged name."""
    topic: str
    facts: dict[str, str]
    """Words for the slots of prompts and answers."""


def image_pool(folder: ImageFolder, presets: PresetFolder, size: int, seed: int) -> dict[Era, list[PoolImage]]:
    """The images of ordinary traffic that the server of each era has; each is saved once, for many conversations."""
    early, late = [], []
    for number, (topic, drawing) in enumerate(_drawings(size, seed)):
        image = drawing.image
        if number % 20 in _PRESETS_OF_TWENTY:
            image = PIL.Image.open(presets.add(image, topic.capitalize()))
        both, only_early = number % _BOTH_EVERY == 0, number % _EARLY_EVERY == 1
        if both or only_early:
            early.append(PoolImage(folder.save(image, Era.JPG), topic, drawing.facts))
        if both or not only_early:
            late.append(PoolImage(folder.save(image, Era.PNG), topic, drawing.facts))
    return {Era.TEXT: early, Era.JPG: early, Era.PNG: late}


def _drawings(size: int, seed: int) -> Iterator[tuple[str, DrawnImage]]:
    """(topic, drawing) of `size` images. Each photograph view is used once; after that its family is skipped."""
    rng = chance(seed, "pool")
    names, weights = list(topics()), [topic.share for topic in topics().values()]
    # every whole photograph and every tile
    views: dict[str, list[partial[DrawnImage]]] = {}
    for photograph in photographs("scenes"):
        # A cut is one tile of the photograph, or the whole of it.
        cuts = [(n, column, row) for n in {1, photograph.tiles} for row in range(n) for column in range(n)]
        views.setdefault(photograph.family, []).extend(partial(view, photograph, cut) for cut in cuts)
    for pool in views.values():
        rng.shuffle(pool)
    number = 0
    while number < size:
        topic = rng.choices(names, weights)[0]
        family = rng.choice(topics()[topic].families)
        if family in FAMILIES:
            yield topic, FAMILIES[family](chance(seed, family, number))
        elif views[family]:
            yield topic, views[family].pop()()
        else:
            continue
        number += 1
