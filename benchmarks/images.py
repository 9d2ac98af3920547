"""Photographs that benchmarks measure with."""

from pathlib import Path

import numpy as np
import PIL.Image
import skimage

NAMES = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "ihc.png", "retina.jpg", "page.png", "brick.png")
COPIES = 4
SIDE = 1024


def image_files(folder: Path) -> list[Path]:
    """Photographs as a server keeps them: JPEG of at most 1024 pixels."""
    source = Path(skimage.__file__).parent / "data"
    files = []
    for name in NAMES:
        image = PIL.Image.open(source / name).convert("RGB").resize((SIDE, SIDE * 3 // 4))
        for copy in range(COPIES):
            shifted = PIL.Image.fromarray(np.roll(np.asarray(image), 37 * copy, axis=1))
            files.append(folder / f"{copy}-{Path(name).stem}.jpg")
            shifted.save(files[-1], quality=88)
    return files
