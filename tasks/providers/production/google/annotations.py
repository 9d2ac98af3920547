"""Vision's answer about one image, in our words and in the image's own pixels."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from google.cloud.vision_v1 import AnnotateImageResponse, BoundingPoly, EntityAnnotation, FaceAnnotation, Likelihood
from google.rpc.code_pb2 import Code

from schemas.signals import Face, ImageText, TextBox
from tasks.images.decode import DecodedImage
from tasks.providers.capabilities import Failed
from tasks.providers.production.upload import Upload

PROBABILITY = {
    Likelihood.VERY_UNLIKELY: 0.05,
    Likelihood.UNLIKELY: 0.2,
    Likelihood.POSSIBLE: 0.5,
    Likelihood.LIKELY: 0.8,
    Likelihood.VERY_LIKELY: 0.95,
}
"""SafeSearch says a word, not a number. Ours are in its order; a threshold of 0.8 is "likely" or more."""
ADULT = {int(likelihood): probability for likelihood, probability in PROBABILITY.items()}


@dataclass(frozen=True)
class Annotated:
    """What Vision said about one image."""

    features: frozenset[int]
    """What it was asked: an empty list below means "none" only for these."""
    faces: list[Face]
    """Faces in the image's pixels, strongest first."""
    text: ImageText
    """All text."""
    adult: int
    """SafeSearch's likelihood of pornography, as Vision numbers it; 0 is none given."""


def annotated(
    picture: DecodedImage, upload: Upload, features: frozenset[int], said: AnnotateImageResponse
) -> Annotated | Failed:
    """One entry of a batch answer; Vision reports failures one by one inside a successful call."""
    if said.error.code:
        return Failed(_status_name(said.error.code))
    faces = sorted((_face(face, picture, upload) for face in said.face_annotations), key=lambda face: -face.confidence)
    adult = int(said.safe_search_annotation.adult)
    return Annotated(features, faces, _text(said.text_annotations, picture, upload), adult)


def _status_name(code: int) -> str:
    """The name of a gRPC status in lower case; never its message, which may quote the request."""
    return str(Code.Name(code)).lower() if code in Code.values() else "unknown_failure"


def _face(face: FaceAnnotation, picture: DecodedImage, upload: Upload) -> Face:
    return Face(box=_box(face.bounding_poly, picture, upload), confidence=face.detection_confidence)


def _box(polygon: BoundingPoly, picture: DecodedImage, upload: Upload) -> list[int]:
    """x, y, width, height in the image's own pixels."""
    scale = (picture.width / upload.width, picture.height / upload.height)
    left, right = _span((x for x, _ in _corners(polygon)), scale[0], picture.width)
    top, bottom = _span((y for _, y in _corners(polygon)), scale[1], picture.height)
    return [left, top, right - left, bottom - top]


def _span(values: Iterable[int], scale: float, limit: int) -> tuple[int, int]:
    """First and last pixel along one axis, inside the image; Vision's boxes may reach beyond its edges."""
    inside = [min(max(round(value * scale), 0), limit) for value in values] or [0]
    return min(inside), max(inside)


def _text(found: Sequence[EntityAnnotation], picture: DecodedImage, upload: Upload) -> ImageText:
    """The first annotation is the whole text, the others are its words."""
    text = found[0].description.strip("\n") if found else ""
    lines = [line for line in text.split("\n") if line.strip()]
    covered = sum(_area(_corners(word.bounding_poly)) for word in found[1:])
    return ImageText(
        text="\n".join(lines),
        line_count=len(lines),
        area_fraction=min(1.0, covered / (upload.width * upload.height)),
        boxes=_word_boxes("\n".join(lines), found[1:], picture, upload),
    )


def _word_boxes(text: str, words: Sequence[EntityAnnotation], picture: DecodedImage, upload: Upload) -> list[TextBox]:
    """The words in the order of the text. One that is not found after the last stands for the whole text."""
    boxes, end = [], 0
    for word in words:
        start = text.find(word.description, end)
        span = (0, len(text)) if start < 0 else (start, start + len(word.description))
        end = end if start < 0 else span[1]
        boxes.append(TextBox(box=_box(word.bounding_poly, picture, upload), start=span[0], end=span[1]))
    return boxes


def _corners(polygon: BoundingPoly) -> list[tuple[int, int]]:
    vertices: Iterable[Any] = polygon.vertices
    return [(vertex.x, vertex.y) for vertex in vertices]


def _area(corners: list[tuple[int, int]]) -> float:
    """Area of a polygon by the shoelace formula."""
    following = corners[1:] + corners[:1]
    return abs(sum(x * next_y - next_x * y for (x, y), (next_x, next_y) in zip(corners, following, strict=True))) / 2
