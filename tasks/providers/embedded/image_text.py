"""Text in pictures by RapidOCR (PP-OCR weights in the wheel), at the size that is fast on photographs."""

import logging
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from schemas.signals import ImageText
from tasks.pictures import Picture

SIDE = 640
"""Longer side of the picture as text is looked for; RapidOCR's own default enlarges small pictures."""


class RapidOcr:
    """All lines, top to bottom, and the share of the picture they cover."""

    version = f"rapidocr-3.10.0-max{SIDE}"

    def __init__(self) -> None:
        logging.getLogger("RapidOCR").setLevel(logging.ERROR)
        self._engines = threading.local()

    def read(self, pictures: Sequence[Picture]) -> list[ImageText]:
        """The text of every picture."""
        return [self._read(picture) for picture in pictures]

    def _read(self, picture: Picture) -> ImageText:
        found = self._engine()(np.ascontiguousarray(picture.rgb[:, :, ::-1]))
        if found.txts is None or found.boxes is None:
            return ImageText(text="", line_count=0, area_fraction=0.0)
        covered = sum(_area(np.asarray(box, np.float64)) for box in found.boxes)
        fraction = min(1.0, covered / (picture.width * picture.height))
        return ImageText(text="\n".join(found.txts), line_count=len(found.txts), area_fraction=fraction)

    def _engine(self) -> Any:
        """One engine for each thread: an engine keeps state between calls."""
        if not hasattr(self._engines, "engine"):
            from rapidocr import RapidOCR  # a second to import, and only when there is something to read

            self._engines.engine = RapidOCR(
                params={
                    "Det.limit_type": "max",
                    "Det.limit_side_len": SIDE,
                    "Rec.rec_batch_num": 1,  # a batch pads every line to its longest: a third slower here
                    "EngineConfig.onnxruntime.intra_op_num_threads": 1,
                    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
                    "Global.log_level": "error",
                }
            )
        return self._engines.engine


def _area(corners: np.ndarray) -> float:
    """Area of a polygon by the shoelace formula; corners float64 (n, 2)."""
    x, y = corners.T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)
