"""Vision's answer about one picture, in our words and in the picture's own pixels."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from google.cloud.vision_v1 import AnnotateImageResponse, BoundingPoly, EntityAnnotation, FaceAnnotation
from google.rpc.code_pb2 import Code

from schemas.signals import Face, ImageText
from tasks.pictures import Picture
from tasks.providers.capabilities import Failed
from tasks.providers.production.upload import Upload


@dataclass(frozen=True)
class Annotated:
    """What Vision said about one picture."""

    features: frozenset[int]
    """What it was asked: an empty list below means "none" only for these."""
    faces: list[Face]
    """Faces in the picture's pixels, strongest first."""
    text: ImageText
    """All text."""


def annotated(
    picture: Picture, upload: Upload, features: frozenset[int], said: AnnotateImageResponse
) -> Annotated | Failed:
    """One entry of a batch answer; Vision reports failures one by one inside a successful call."""
    if said.error.code:
        return Failed(_status_name(said.error.code))
    faces = sorted((_face(face, picture, upload) for face in said.face_annotations), key=lambda face: -face.confidence)
    return Annotated(features, faces, _text(said.text_annotations, upload))


def _status_name(code: int) -> str:
    """The name of a gRPC status in lower case; never its message, which may quote the request."""
    return str(Code.Name(code)).lower() if code in Code.values() else "unknown_failure"


def _face(face: FaceAnnotation, picture: Picture, upload: Upload) -> Face:
    scale = (picture.width / upload.width, picture.height / upload.height)
    limit = (picture.width, picture.height)
    left, right = _span((x for x, _ in _corners(face.bounding_poly)), scale[0], limit[0])
    top, bottom = _span((y for _, y in _corners(face.bounding_poly)), scale[1], limit[1])
    return Face(box=[left, top, right - left, bottom - top], confidence=face.detection_confidence)


def _span(values: Iterable[int], scale: float, limit: int) -> tuple[int, int]:
    """First and last pixel along one axis, inside the picture; Vision's boxes may reach beyond its edges."""
    inside = [min(max(round(value * scale), 0), limit) for value in values] or [0]
    return min(inside), max(inside)


def _text(found: Sequence[EntityAnnotation], upload: Upload) -> ImageText:
    """The first annotation is the whole text, the others are its words."""
    text = found[0].description.strip("\n") if found else ""
    lines = [line for line in text.split("\n") if line.strip()]
    covered = sum(_area(_corners(word.bounding_poly)) for word in found[1:])
    return ImageText(
        text="\n".join(lines), line_count=len(lines), area_fraction=min(1.0, covered / (upload.width * upload.height))
    )


def _corners(polygon: BoundingPoly) -> list[tuple[int, int]]:
    vertices: Iterable[Any] = polygon.vertices
    return [(vertex.x, vertex.y) for vertex in vertices]


def _area(corners: list[tuple[int, int]]) -> float:
    """Area of a polygon by the shoelace formula."""
    following = corners[1:] + corners[:1]
    return abs(sum(x * next_y - next_x * y for (x, y), (next_x, next_y) in zip(corners, following, strict=True))) / 2
