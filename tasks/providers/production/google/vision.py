"""Google Cloud Vision: faces, text, objects and SafeSearch of an image from one request.

Credentials: Application Default Credentials (GOOGLE_APPLICATION_CREDENTIALS, gcloud, or the machine's own identity).
CURATE_VISION_ENDPOINT=host:port calls a server on this machine instead, without credentials.
"""

import ipaddress
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import cv2
import grpc  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
from google.api_core import exceptions
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.cloud.vision_v1 import (
    AnnotateImageRequest,
    AnnotateImageResponse,
    BoundingPoly,
    EntityAnnotation,
    Feature,
    Image,
    ImageAnnotatorClient,
    Likelihood,
)
from google.cloud.vision_v1.services.image_annotator.transports import ImageAnnotatorGrpcTransport
from google.rpc.code_pb2 import Code

from schemas.errors import BadInput, MissingProvider
from schemas.signals import Face, ImageText, TextBox
from tasks.images.decode import DecodedImage
from tasks.providers.capabilities import Failed
from tasks.providers.cost import Count, ExpectedUse, ItemSize
from tasks.providers.production.calls import CallFailed, Service, in_batches
from tasks.providers.upload import SENT_SIDE_MAX, Upload, for_upload
from tasks.runtime.parallel import map_ordered

VISION_ENDPOINT = "CURATE_VISION_ENDPOINT"
VISION_VERSION = f"google-vision-v1-max{SENT_SIDE_MAX}"
VISION_SERVICE = "google_vision"
"""Name in the price file and in the record of use. A unit is one feature of one image, also when it failed."""
VISION_IMAGES_MAX = 16
"""Images in one synchronous request (Vision's quota page)."""
REQUEST_BYTES_MAX = 7_000_000
"""Bytes of images in one request; base64 in JSON keeps them below Vision's 10 MB."""
VISION_REQUESTS_AT_ONCE = 4
VISION_TIMEOUT_SECONDS = 60.0
FACES_MAX = 100
"""Faces asked for; Vision's default is 10."""
ANSWERS_KEPT = 4096
FACES, TEXT_FEATURE = Feature.Type.FACE_DETECTION, Feature.Type.TEXT_DETECTION
SAFE_SEARCH, OBJECTS = Feature.Type.SAFE_SEARCH_DETECTION, Feature.Type.OBJECT_LOCALIZATION
OBJECT_SCORE_MIN = 0.5
"""Least score, 0 to 1, of an object that counts."""
PROBABILITY = {
    Likelihood.VERY_UNLIKELY: 0.05,
    Likelihood.UNLIKELY: 0.2,
    Likelihood.POSSIBLE: 0.5,
    Likelihood.LIKELY: 0.8,
    Likelihood.VERY_LIKELY: 0.95,
}
"""Our numbers for SafeSearch's words, in their order; a threshold of 0.8 is "likely" or more."""
_UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
"""No limits, as on the library's own channels: the answer to 16 pages of text exceeds gRPC's 4 MB."""
_MAY_PASS = exceptions.ResourceExhausted, exceptions.ServiceUnavailable, exceptions.DeadlineExceeded
_UNBILLED = (
    exceptions.ResourceExhausted,
    exceptions.PermissionDenied,
    exceptions.Unauthenticated,
    exceptions.InvalidArgument,
)

Batch = list[tuple[DecodedImage, Upload]]


@dataclass(frozen=True)
class Annotated:
    """Vision's answer about one image."""

    features: frozenset[int]
    """The requested features: only for these does an empty list mean "none"."""
    faces: list[Face]
    """Faces in image pixels, highest confidence first."""
    text: ImageText
    """All text."""
    adult: int
    """SafeSearch's `Likelihood` of pornography; 0 when not given."""
    objects: list[str]
    """Names of objects, each once, highest score first."""


VisionAnswers = dict[str, Annotated | Failed]


class VisionClient:
    """One connection for all capabilities that use Vision, so that an image is sent once for all of them.

    Vision bills every feature of every image, so only the features that were announced by `want` are requested.
    """

    def __init__(self) -> None:
        self._stub, self._service = connect(), Service(VISION_SERVICE)
        self._wanted: set[int] = set()
        self._kept: dict[str, Annotated] = {}
        self._lock = threading.Lock()

    def want(self, feature: int) -> None:
        """Announce a feature, before the first image."""
        self._wanted.add(feature)

    def annotate(self, images: Sequence[DecodedImage], feature: int) -> list[Annotated | Failed]:
        """Vision's answer about every image, in order, with at least this feature."""
        with self._lock:
            kept = {image.image_id: self._kept.get(image.image_id) for image in images}
        answers: VisionAnswers = {key: answer for key, answer in kept.items() if answer and feature in answer.features}
        unknown = {image.image_id: image for image in images if image.image_id not in answers}
        uploads = ((image, for_upload(image)) for image in unknown.values())
        batches = in_batches(uploads, lambda pair: len(pair[1].content), REQUEST_BYTES_MAX, VISION_IMAGES_MAX)
        for batch_answers in map_ordered(self._ask, batches, VISION_REQUESTS_AT_ONCE):
            answers |= batch_answers
        return [answers[image.image_id] for image in images]

    def _ask(self, batch: Batch) -> VisionAnswers:
        feature_set = frozenset(self._wanted)
        features = [Feature(type_=feature, max_results=FACES_MAX) for feature in sorted(feature_set)]
        requests = [
            AnnotateImageRequest(image=Image(content=sent_image.content), features=features) for _, sent_image in batch
        ]
        try:
            responses = self._service.ask_for_units(len(requests) * len(features), lambda _: self._call(requests))
        except CallFailed as failure:
            return {image.image_id: Failed(failure.reason) for image, _ in batch}
        answers = {
            image.image_id: _annotated(image, upload, feature_set, response)
            for (image, upload), response in zip(batch, responses, strict=True)
        }
        with self._lock:  # the next capability asks about the same batch
            self._kept |= {key: answer for key, answer in answers.items() if isinstance(answer, Annotated)}
            for oldest in list(self._kept)[:-ANSWERS_KEPT]:
                del self._kept[oldest]
        return answers

    def _call(self, requests: list[AnnotateImageRequest]) -> Sequence[AnnotateImageResponse]:
        try:
            answer = self._stub.batch_annotate_images(requests=requests, retry=None, timeout=VISION_TIMEOUT_SECONDS)
        except exceptions.GoogleAPICallError as error:
            status = error.grpc_status_code  # never the message, which may quote the request
            reason = type(error).__name__ if status is None else str(status.name).lower()
            may_pass, unbilled = isinstance(error, _MAY_PASS), isinstance(error, _UNBILLED)
            raise CallFailed(reason, may_pass=may_pass, unbilled=unbilled) from None
        except GoogleAuthError:
            raise CallFailed("not_signed_in", unbilled=True) from None
        if len(answer.responses) != len(requests):
            raise CallFailed("wrong_number_of_answers")
        return list(answer.responses)


def connect() -> ImageAnnotatorClient:
    """A client with the environment's credentials. Raises MissingProvider when there are none."""
    endpoint = os.environ.get(VISION_ENDPOINT)
    if endpoint:
        # images are sent unencrypted to a loopback address only
        host, _, port = endpoint.rpartition(":")
        try:
            loopback = host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
        except ValueError:
            loopback = False
        if not (port.isdecimal() and loopback):
            raise BadInput(
                f"{VISION_ENDPOINT}={endpoint!r}: only host:port on this machine is allowed, such as 127.0.0.1:8085"
            )
        channel = grpc.insecure_channel(endpoint, options=_UNLIMITED)
        return ImageAnnotatorClient(transport=ImageAnnotatorGrpcTransport(channel=channel))
    try:
        return ImageAnnotatorClient()
    except DefaultCredentialsError:
        raise MissingProvider(
            "google_vision: no Google credentials in the environment; set GOOGLE_APPLICATION_CREDENTIALS to a service "
            "account's key file, or run: gcloud auth application-default login"
        ) from None


def _annotated(
    image: DecodedImage, upload: Upload, features: frozenset[int], response: AnnotateImageResponse
) -> Annotated | Failed:
    """One answer, scaled to the image's pixels. Vision reports failures per image inside a successful call."""
    if code := response.error.code:  # never the message, which may quote the request
        return Failed(str(Code.Name(code)).lower() if code in Code.values() else "unknown_failure")
    faces = [
        Face(box=_box(face.bounding_poly, image, upload), confidence=face.detection_confidence)
        for face in response.face_annotations
    ]
    faces.sort(key=lambda face: -face.confidence)
    adult = int(response.safe_search_annotation.adult)
    seen = sorted(response.localized_object_annotations, key=lambda detected_object: -detected_object.score)
    objects = list(
        dict.fromkeys(detected_object.name for detected_object in seen if detected_object.score >= OBJECT_SCORE_MIN)
    )
    return Annotated(features, faces, _text(response.text_annotations, image, upload), adult, objects)


def _corners(polygon: BoundingPoly) -> npt.NDArray[np.int32]:
    """int32 (n, 2) in pixels as sent."""
    vertices: Iterable[Any] = polygon.vertices
    return np.array([(vertex.x, vertex.y) for vertex in vertices] or [(0, 0)], np.int32)


def _box(polygon: BoundingPoly, image: DecodedImage, upload: Upload) -> list[int]:
    """x, y, width, height in the image's own pixels, inside the image; Vision's boxes may reach beyond its edges."""
    scaled = _corners(polygon) * (image.width / upload.width, image.height / upload.height)
    inside = np.clip(np.rint(scaled).astype(int), 0, (image.width, image.height))
    (left, top), (right, bottom) = inside.min(axis=0).tolist(), inside.max(axis=0).tolist()
    return [left, top, right - left, bottom - top]


def _text(annotations: Sequence[EntityAnnotation], image: DecodedImage, upload: Upload) -> ImageText:
    """The first annotation is the whole text, the others are its words."""
    lines = [line for line in annotations[0].description.split("\n") if line.strip()] if annotations else []
    text, words = "\n".join(lines), annotations[1:]
    # a word that is not found after the previous one gets the whole text as span
    boxes, end = [], 0
    for word in words:
        start = text.find(word.description, end)
        span = (0, len(text)) if start < 0 else (start, start + len(word.description))
        end = end if start < 0 else span[1]
        boxes.append(TextBox(box=_box(word.bounding_poly, image, upload), start=span[0], end=span[1]))
    return ImageText(
        text=text,
        line_count=len(lines),
        area_fraction=min(
            1.0, sum(cv2.contourArea(_corners(word.bounding_poly)) for word in words) / (upload.width * upload.height)
        ),
        boxes=boxes,
    )


_shared: WeakValueDictionary[str, VisionClient] = WeakValueDictionary()


def shared_client() -> VisionClient:
    """The client of the current endpoint, as long as a provider uses it. Not thread-safe."""
    address = os.environ.get(VISION_ENDPOINT, "")
    client = _shared.get(address) or VisionClient()
    _shared[address] = client
    return client


class _Feature:
    """One capability. It announces its feature when made, so that the first request includes it."""

    service, shares_calls = VISION_SERVICE, True
    feature: int

    def __init__(self, client: VisionClient | None = None) -> None:
        self._client = client or shared_client()
        self._client.want(self.feature)

    def expected_use(self, items: Sequence[ItemSize], count: Count) -> ExpectedUse:
        """One unit an image, and so many images a request."""
        return ExpectedUse(-(-len(items) // VISION_IMAGES_MAX), units=len(items))

    def _annotated(self, images: Sequence[DecodedImage]) -> list[Annotated | Failed]:
        return self._client.annotate(images, self.feature)


class VisionFaces(_Feature):
    """Faces: boxes in image pixels, highest confidence first. People are not identified."""

    version, feature = f"{VISION_VERSION}-faces", FACES

    def find_faces(self, images: Sequence[DecodedImage]) -> list[list[Face] | Failed]:
        """The faces of every image, in order."""
        return [answer if isinstance(answer, Failed) else answer.faces for answer in self._annotated(images)]


class VisionText(_Feature):
    """Text: all lines, and the fraction of the image that its words cover."""

    version, feature = f"{VISION_VERSION}-text", TEXT_FEATURE

    def read(self, images: Sequence[DecodedImage]) -> list[ImageText | Failed]:
        """The text of every image, in order."""
        return [answer if isinstance(answer, Failed) else answer.text for answer in self._annotated(images)]


class VisionObjects(_Feature):
    """Objects by name, from Vision's object localization; boxes are not kept."""

    version, feature = f"{VISION_VERSION}-objects-min{OBJECT_SCORE_MIN}", OBJECTS

    def find_objects(self, images: Sequence[DecodedImage]) -> list[list[str] | Failed]:
        """The objects of every image, in order."""
        return [answer if isinstance(answer, Failed) else answer.objects for answer in self._annotated(images)]


class VisionSafeSearch(_Feature):
    """SafeSearch's likelihood of `adult` content; spoof, medical, violence and racy are not used."""

    version, feature = f"{VISION_VERSION}-safe-search", SAFE_SEARCH

    def nsfw_probabilities(self, images: Sequence[DecodedImage]) -> list[float | Failed]:
        """Probability, 0 to 1, of every image; Failed where SafeSearch gave none."""
        likelihoods = {int(word): probability for word, probability in PROBABILITY.items()}
        return [
            answer if isinstance(answer, Failed) else likelihoods.get(answer.adult, Failed("no_verdict"))
            for answer in self._annotated(images)
        ]
