"""Small faces in large images: recall, false alarms and cost by size.

    python -m benchmarks.large_faces DATA [--images N] [--labels CSV]

DATA as for privacy_quality. Images without a face are laid side by side at their own size until a canvas is full; a
face from the labelled images is pasted into some of them, 32 to 64 pixels high. Each canvas is searched without
faces first: what is found then is a false alarm.
"""

import argparse
import csv
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import PIL.Image

from benchmarks.privacy_quality import IMAGES, LABELS, figure
from tasks.images.decode import DecodedImage, ImageRejected, open_image
from tasks.providers.embedded.faces import CenterFace

WIDTHS = (2560, 4096, 8192)
FACES_A_CANVAS = 8
CONFIDENCE = 0.5
Box = tuple[int, int, int, int]


def as_image(image: PIL.Image.Image) -> DecodedImage:
    """A drawn image as the finder takes it."""
    return DecodedImage("0" * 32, b"", "png", np.asarray(image))


def images_below(data: Path, labels: Path) -> tuple[list[Path], list[Path]]:
    """Files with a labelled face, and files without any."""
    with labels.open(encoding="utf-8") as lines:
        known = {row["file"]: row["kind"] for row in csv.DictReader(lines)}
    files = [f for f in sorted(data.rglob("*")) if f.suffix.lower() in IMAGES and "arena-logs" not in f.parts]
    names = {file: file.relative_to(data).as_posix() for file in files}
    with_face = [file for file in files if known.get(names[file]) == "face"]
    return with_face, [file for file in files if names[file] not in known]


def heads(files: list[Path], finder: CenterFace) -> Iterator[tuple[PIL.Image.Image, int]]:
    """The surest face of each image with its surroundings, and the height of the face in it."""
    for file in files:
        image = open_image(file.read_bytes())
        (found,) = finder.find_faces([image])
        if found and found[0].box[3] >= 64:
            x, y, width, height = found[0].box
            area = (x - width // 4, y - height // 4, x + width * 5 // 4, y + height * 5 // 4)
            if area[0] >= 0 and area[1] >= 0 and area[2] <= image.width and area[3] <= image.height:
                yield image.pil.crop(area), height


def canvas(files: list[Path], width: int, rng: np.random.Generator) -> PIL.Image.Image:
    """An image of width x width * 3 / 4 full of others, each as it is."""
    full = PIL.Image.new("RGB", (width, width * 3 // 4), "white")
    top = 0
    while top < full.height:
        left, row = 0, 200
        while left < full.width:
            try:
                shown = open_image(files[rng.integers(len(files))].read_bytes()).pil.convert("RGB")
            except ImageRejected:
                continue
            full.paste(shown, (left, top))
            left, row = left + shown.width, max(row, min(shown.height, 900))
        top += row
    return full


def with_faces(
    full: PIL.Image.Image, faces: list[tuple[PIL.Image.Image, int]], rng: np.random.Generator
) -> tuple[PIL.Image.Image, list[tuple[Box, int]]]:
    """A copy with one face in each of eight fields; where they are and how high."""
    made, places = full.copy(), []
    for field in range(FACES_A_CANVAS):
        head, face_px = faces[rng.integers(len(faces))]
        wanted = int(rng.integers(32, 65))
        scale = wanted / face_px
        size = (max(1, round(head.width * scale)), max(1, round(head.height * scale)))
        left = field % 4 * full.width // 4 + int(rng.integers(full.width // 4 - size[0]))
        top = field // 4 * full.height // 2 + int(rng.integers(full.height // 2 - size[1]))
        made.paste(head.resize(size, PIL.Image.Resampling.LANCZOS), (left, top))
        places.append(((left, top, left + size[0], top + size[1]), wanted))
    return made, places


def main(data: Path, count: int, labels: Path, widths: tuple[int, ...]) -> None:
    """Print recall and false alarms with intervals, and CPU seconds an image, for each width."""
    finder = CenterFace()
    with_face, without = images_below(data, labels)
    faces = list(heads(with_face, finder))
    print(f"{len(faces)} faces, {len(without)} images without")
    for width in widths:
        found, lost, false, seconds, rng = 0, [], [], 0.0, np.random.default_rng(width)
        for number in range(count):
            full = canvas(without, width, rng)
            made, places = with_faces(full, faces, rng)
            started = time.process_time()
            clean, (seen,) = finder.find_faces([as_image(full)])[0], finder.find_faces([as_image(made)])
            seconds += (time.process_time() - started) / 2
            sure = [f.box for f in seen if f.confidence >= CONFIDENCE]
            false += [f"canvas {number}: {f.box}, {f.confidence:.2f}" for f in clean if f.confidence >= CONFIDENCE]
            for (left, top, right, bottom), px in places:
                hit = any(left <= x + w / 2 <= right and top <= y + h / 2 <= bottom for x, y, w, h in sure)
                found += hit
                lost += [] if hit else [f"canvas {number}: {px} px at {left}, {top}"]
        figure(f"faces in {width} x {width * 3 // 4}: recall", found, count * FACES_A_CANVAS, lost)
        print(f"false alarms on {count} canvases without a face: {len(false)}", *false, sep="\n    ")
        print(f"{seconds / count:.2f} CPU seconds an image", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_faces", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--images", type=int, default=5)
    parser.add_argument("--labels", type=Path, default=LABELS)
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    given = parser.parse_args()
    main(given.data, given.images, given.labels, tuple(given.widths))
