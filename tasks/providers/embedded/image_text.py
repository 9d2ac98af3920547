"""OCR by RapidOCR (PP-OCR weights in the wheel), at a size that is fast on photographs."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from schemas.signals import ImageText, TextBox
from tasks.images.decode import DecodedImage, Pixels

SIDE = 640
"""Longer side in pixels for text detection. RapidOCR's default would enlarge small images."""
LETTER = 5
"""Images with a side below this many pixels are skipped."""
PIECE, SLENDER = 2000, 100
"""An image longer than this many pixels, and this many times its width, is read in pieces: RapidOCR shrinks longer
ones to this length, and of the width nothing would be left."""


class RapidOcr:
    """Reads all lines, top to bottom, and the share of the image that they cover."""

    version = f"rapidocr-3.10.0-max{SIDE}"

    def __init__(self, weights: Mapping[str, str] | None = None) -> None:
        """`weights`: RapidOCR's parameters that name other weight files."""
        self._weights = dict(weights or {})
        logging.getLogger("RapidOCR").setLevel(logging.ERROR)
        self._idle: SimpleQueue[Any] = SimpleQueue()

    def read(self, images: Sequence[DecodedImage]) -> list[ImageText]:
        """The text of every image."""
        return [self._read(image) for image in images]

    def _read(self, image: DecodedImage) -> ImageText:
        with self._engine() as engine:
            lines = [line for left, top, piece in _pieces(image.rgb) for line in _lines(engine, left, top, piece)]
        fraction = min(1.0, sum(_area(corners) for _, corners in lines) / (image.width * image.height))
        ends = accumulate(len(line) + 1 for line, _ in lines)  # the newline between two lines belongs to neither
        boxes = [
            TextBox(box=_around(corners), start=end - 1 - len(line), end=end - 1)
            for (line, corners), end in zip(lines, ends, strict=True)
        ]
        text = "\n".join(line for line, _ in lines)
        return ImageText(text=text, line_count=len(lines), area_fraction=fraction, boxes=boxes)

    @contextmanager
    def _engine(self) -> Iterator[Any]:
        """Borrow an engine for exclusive use, because engines keep state between calls."""
        try:
            engine = self._idle.get_nowait()
        except Empty:
            engine = _new_engine(self._weights)
        try:
            yield engine
        finally:
            self._idle.put(engine)


def _new_engine(weights: Mapping[str, str]) -> Any:
    from rapidocr import RapidOCR  # slow to import (about a second)

    return RapidOCR(
        params={
            "Det.limit_type": "max",
            "Det.limit_side_len": SIDE,
            "Rec.rec_batch_num": 1,  # a batch pads every line to its longest: a third slower here
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            "Global.log_level": "error",
            **weights,
        }
    )


def _pieces(rgb: Pixels) -> Iterator[tuple[int, int, Pixels]]:
    """Left, top and pixels of each piece to read: the whole image, unless it is long and thin."""
    height, width = rgb.shape[:2]
    if min(height, width) < LETTER:
        return
    slender = max(height, width) > max(PIECE, SLENDER * min(height, width))
    step = PIECE if slender else max(height, width)
    for top in range(0, height, step):
        for left in range(0, width, step):
            yield left, top, rgb[top : top + step, left : left + step]


def _lines(engine: Any, left: int, top: int, rgb: Pixels) -> list[tuple[str, np.ndarray]]:
    """Text lines of a piece and their corners, float64 (n, 2) in image pixels."""
    found = engine(np.ascontiguousarray(rgb[:, :, ::-1]))
    if found.txts is None or found.boxes is None:
        return []
    return [
        (line, np.add(box, (left, top), dtype=np.float64)) for line, box in zip(found.txts, found.boxes, strict=True)
    ]


def _around(corners: np.ndarray) -> list[int]:
    """x, y, width, height of the upright box around corners float64 (n, 2)."""
    left, top = np.floor(corners.min(axis=0)).astype(int).tolist()
    right, bottom = np.ceil(corners.max(axis=0)).astype(int).tolist()
    return [left, top, right - left, bottom - top]


def _area(corners: np.ndarray) -> float:
    """Area of a polygon by the shoelace formula; corners float64 (n, 2)."""
    x, y = corners.T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)
