"""OCR by RapidOCR (PP-OCR weights in the wheel), at a size that is fast on photographs.

RapidOCR itself turns lines that stand on their head. An image whose lines stand upright on their ends, or are read as
nonsense, is read once more, turned by a quarter or mirrored, and the surer reading is kept.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import PIL.ImageOps

from schemas.signals import ImageText, TextBox
from tasks.images.decode import DecodedImage, Pixels

DETECTION_SIDE = 736
"""Longer side in pixels for text detection. RapidOCR's default would enlarge small images."""
LINE_WIDTH_MIN = 96
"""Pixels to which shorter lines, 48 pixels high, are padded. RapidOCR pads to 320; nine of ten lines are shorter."""
READING = f"max{DETECTION_SIDE}-lines{LINE_WIDTH_MIN}"
"""Part of the version, whatever the weights."""
LETTER = 5
"""Images with a side below this many pixels are skipped."""
PIECE, SLENDER = 2000, 100
"""An image longer than this many pixels, and this many times its width, is read in pieces: RapidOCR shrinks longer
ones to this length, and of the width nothing would be left."""


LINE_CONFIDENCE_MIN = 0.5
"""Lines with less are not text."""
UNSURE, UNSURE_LINES = 0.8, 2
"""Below this mean confidence, of at least so many lines, the image may be mirrored: then it is 0.7, else above 0.9."""
FEW_LINES, SURE = 2, 0.95
"""So few lines are read mirrored one by one, if any is below `SURE`; that reading counts if all of it is above."""
SURE_CHARACTERS = 4
"""Fewest characters of a line that is taken mirrored: a shape that is no text may look like one or two letters."""
FILLS = ">>"
"""Signs in a document's machine-readable line, whose `<` RapidOCR takes for a line that stands on its head."""
FAINT = 64
"""Levels of 255 between dark and light below which contrast is stretched if nothing is read."""
_STANDING = 1.5
"""Height of a line over its width above which it stands on its end."""
_Line = tuple[str, float, np.ndarray]
"""Text, confidence and corners, float64 (4, 2) in pixels."""


class RapidOcr:
    """Reads all lines, top to bottom, and the share of the image that they cover."""

    version = f"rapidocr-3.10.0-{READING}-turned-3"

    def __init__(self, parameters: Mapping[str, Any] | None = None) -> None:
        """`parameters`: RapidOCR's, in place of those here, such as other weight files."""
        self._parameters = dict(parameters or {})
        logging.getLogger("RapidOCR").setLevel(logging.ERROR)
        self._idle: SimpleQueue[Any] = SimpleQueue()

    def read(self, images: Sequence[DecodedImage]) -> list[ImageText]:
        """The text of every image."""
        return [self._read(image) for image in images]

    def _read(self, image: DecodedImage) -> ImageText:
        with self._engine() as engine:
            lines = _lines_of_pieces(engine, image.rgb)
            if not lines and np.ptp(np.asarray(image.pil.convert("L"))) < FAINT:
                lines = _lines_of_pieces(engine, np.asarray(PIL.ImageOps.autocontrast(image.pil)))
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
            engine = _new_engine(self._parameters)
        try:
            yield engine
        finally:
            self._idle.put(engine)


def _new_engine(parameters: Mapping[str, Any]) -> Any:
    from rapidocr import RapidOCR  # slow to import (about a second)

    return RapidOCR(
        params={
            "Det.limit_type": "max",
            "Det.limit_side_len": DETECTION_SIDE,
            "Rec.rec_img_shape": [3, 48, LINE_WIDTH_MIN],
            "Rec.rec_batch_num": 1,  # a batch pads every line to its longest: a third slower here
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            "Global.log_level": "error",
            "Global.text_score": 0,  # lines that cannot be read tell that the image is mirrored
            **parameters,
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


def _lines_of_pieces(engine: Any, rgb: Pixels) -> list[tuple[str, np.ndarray]]:
    """Text of all lines of an image, and their corners."""
    return [
        (text, np.add(corners, (left, top)))
        for left, top, piece in _pieces(rgb)
        for text, confidence, corners in _surest_lines(engine, piece)
        if confidence >= LINE_CONFIDENCE_MIN
    ]


def _surest_lines(engine: Any, rgb: Pixels) -> list[_Line]:
    """Lines of a piece as it is, or turned by a quarter or mirrored where that is read better."""
    upright = _lines(engine, rgb)
    readings = [upright]
    if sum(_stands(at) for *_, at in upright) > len(upright) / 2:
        turned = _lines(engine, np.rot90(rgb))
        readings.append(
            [(text, sure, np.stack([rgb.shape[1] - at[:, 1], at[:, 0]], axis=1)) for text, sure, at in turned]
        )
    elif len(upright) >= UNSURE_LINES and np.mean([sure for _, sure, _ in upright]) < UNSURE:
        mirrored = _lines(engine, rgb[:, ::-1])
        readings.append([(text, sure, at * (-1, 1) + (rgb.shape[1], 0)) for text, sure, at in mirrored])
    elif len(upright) <= FEW_LINES and any(sure < SURE for _, sure, _ in upright):
        readings.append([_mirrored(engine, rgb, line) for line in upright])
    return max(readings, key=lambda lines: sum(len(text) * (sure - LINE_CONFIDENCE_MIN) for text, sure, _ in lines))


def _mirrored(engine: Any, rgb: Pixels, line: _Line) -> _Line:
    """A line read from its mirrored or flipped pixels, if that is sure, else as it was."""
    piece = _cut(rgb, line)
    read = _surest(engine, line, piece[:, ::-1], piece[::-1])
    return read if read[1] >= SURE and len(read[0].strip()) >= SURE_CHARACTERS else line


def _either_way_up(engine: Any, rgb: Pixels, line: _Line) -> _Line:
    """The surest of a line's readings as it is, and as it stands and on its head whatever RapidOCR takes it for."""
    piece = _cut(rgb, line)
    return max(line, _surest(engine, line, piece, piece[::-1, ::-1]), key=lambda reading: reading[1])


def _cut(rgb: Pixels, line: _Line) -> Pixels:
    left, top, width, height = _around(line[2])
    return rgb[max(0, top) : top + height, max(0, left) : left + width]


def _surest(engine: Any, line: _Line, *pieces: Pixels) -> _Line:
    """The line with the surest text of several pixels, none of which RapidOCR turns over; confidence 0 without text."""
    engine_outputs = [engine(np.ascontiguousarray(piece[:, :, ::-1]), use_det=False, use_cls=False, use_rec=True)
                      for piece in pieces]  # fmt: skip
    texts = [(read.txts[0], float(read.scores[0])) for read in engine_outputs if read.txts]
    return (*max(texts, key=lambda reading: reading[1], default=("", 0.0)), line[2])


def _stands(corners: np.ndarray) -> bool:
    wide, high = np.ptp(corners, axis=0)
    return bool(high > _STANDING * wide)


def _lines(engine: Any, rgb: Pixels) -> list[_Line]:
    """Text lines of a piece, also those that are hardly read."""
    # Said at each call: the engine keeps what a call before it asked for.
    engine_output = engine(np.ascontiguousarray(rgb[:, :, ::-1]), use_det=True, use_cls=True, use_rec=True)
    if engine_output.txts is None or engine_output.boxes is None:
        return []
    corners = (np.asarray(box, np.float64) for box in engine_output.boxes)
    lines = zip(engine_output.txts, map(float, engine_output.scores), corners, strict=True)
    return [_either_way_up(engine, rgb, line) if FILLS in line[0] else line for line in lines]


def _around(corners: np.ndarray) -> list[int]:
    """x, y, width, height of the upright box around corners float64 (n, 2)."""
    left, top = np.floor(corners.min(axis=0)).astype(int).tolist()
    right, bottom = np.ceil(corners.max(axis=0)).astype(int).tolist()
    return [left, top, right - left, bottom - top]


def _area(corners: np.ndarray) -> float:
    """Area of a polygon by the shoelace formula; corners float64 (n, 2)."""
    x, y = corners.T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)
