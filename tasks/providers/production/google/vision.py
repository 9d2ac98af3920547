"""Google Cloud Vision: up to 16 images a request, every wanted feature at once, each answer kept for the next asker.

Credentials: Application Default Credentials (GOOGLE_APPLICATION_CREDENTIALS, gcloud, or the machine's own identity).
CURATE_VISION_ENDPOINT=host:port speaks to a server on this machine instead, without credentials.
"""

import ipaddress
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from weakref import WeakValueDictionary

import grpc  # type: ignore[import-untyped]
from google.api_core import exceptions
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.cloud.vision_v1 import AnnotateImageRequest, AnnotateImageResponse, Feature, Image, ImageAnnotatorClient
from google.cloud.vision_v1.services.image_annotator.transports import ImageAnnotatorGrpcTransport

from schemas.errors import BadInput, MissingProvider
from schemas.run import Use
from schemas.signals import Face, ImageText
from tasks.images.decode import DecodedImage
from tasks.providers.capabilities import Failed
from tasks.providers.production.calls import CallFailed, Service
from tasks.providers.production.google.annotations import ADULT, Annotated, annotated
from tasks.providers.production.upload import SIDE_MAX, Upload, for_upload
from tasks.runtime.budget import Bill, ledger
from tasks.runtime.parallel import map_ordered

ENDPOINT = "CURATE_VISION_ENDPOINT"
VERSION = f"google-vision-v1-max{SIDE_MAX}"
SERVICE = "google_vision"
"""Name in the price file and in the record of use; a unit is one feature of one image, its failed ones included."""
IMAGES_MAX = 16
"""Images in one synchronous request (Vision's quota page)."""
REQUEST_BYTES_MAX = 7_000_000
"""Bytes of images in one request; as JSON's base64 they stay below Vision's 10 MB."""
REQUESTS_AT_ONCE = 4
TIMEOUT_SECONDS = 60.0
FACES_MAX = 100
"""Faces asked for; without it Vision stops at 10."""
ANSWERS_KEPT = 4096
FACES, TEXT = Feature.Type.FACE_DETECTION, Feature.Type.TEXT_DETECTION
SAFE_SEARCH = Feature.Type.SAFE_SEARCH_DETECTION
_UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
"""What the library sets on its own channels: the answer to 16 pages of text exceeds gRPC's 4 MB."""
_MAY_PASS = exceptions.ResourceExhausted, exceptions.ServiceUnavailable, exceptions.DeadlineExceeded
_UNBILLED = (
    exceptions.ResourceExhausted,
    exceptions.PermissionDenied,
    exceptions.Unauthenticated,
    exceptions.InvalidArgument,
)

Batch = Sequence[tuple[DecodedImage, Upload]]
Answers = dict[str, Annotated | Failed]


class VisionClient:
    """One connection, shared by the capabilities that use Vision, so that an image is sent once for all of them.

    Vision bills every feature of every image; a client asks for the features that its users have announced.
    """

    def __init__(self) -> None:
        self._stub, self._service = connect(), Service(SERVICE)
        self._wanted: set[int] = set()
        self._kept: OrderedDict[str, Annotated] = OrderedDict()
        self._lock = threading.Lock()

    def want(self, feature: int) -> None:
        """Announce a feature, before the first image."""
        self._wanted.add(feature)

    def annotate(self, pictures: Sequence[DecodedImage], feature: int) -> list[Annotated | Failed]:
        """What Vision says of every image, in order, with at least this feature."""
        answers: Answers = {}
        unknown: dict[str, DecodedImage] = {}
        for picture in pictures:
            kept = self._recall(picture.image_id)
            if kept is not None and feature in kept.features:
                answers[picture.image_id] = kept
            else:
                unknown[picture.image_id] = picture
        for some in map_ordered(self._ask, _batches(unknown.values()), REQUESTS_AT_ONCE):
            answers |= some
        return [answers[picture.image_id] for picture in pictures]

    def _ask(self, batch: Batch) -> Answers:
        wanted = frozenset(self._wanted)
        features = [Feature(type_=feature, max_results=FACES_MAX) for feature in sorted(wanted)]
        requests = [AnnotateImageRequest(image=Image(content=each.content), features=features) for _, each in batch]
        units, price = len(requests) * len(features), ledger().prices.unit_usd(SERVICE)
        try:
            responses = self._service.ask(
                None if price is None else units * price, lambda bill: self._call(requests, units, bill)
            )
        except CallFailed as failure:
            return {picture.image_id: Failed(failure.reason) for picture, _ in batch}
        answers = {
            picture.image_id: annotated(picture, upload, wanted, said)
            for (picture, upload), said in zip(batch, responses, strict=True)
        }
        self._keep(answers)
        return answers

    def _call(self, requests: list[AnnotateImageRequest], units: int, bill: Bill) -> Sequence[AnnotateImageResponse]:
        try:
            answer = self._stub.batch_annotate_images(requests=requests, retry=None, timeout=TIMEOUT_SECONDS)
        except exceptions.GoogleAPICallError as error:
            passing, unbilled = isinstance(error, _MAY_PASS), isinstance(error, _UNBILLED)
            raise CallFailed(_name(error), may_pass=passing, unbilled=unbilled) from None
        except GoogleAuthError:
            raise CallFailed("not_signed_in", unbilled=True) from None
        if len(answer.responses) != len(requests):
            raise CallFailed("wrong_number_of_answers")
        bill.settle(Use(calls=1, units=units, usd=units * (ledger().prices.unit_usd(SERVICE) or 0.0)))
        return list(answer.responses)

    def _recall(self, image_id: str) -> Annotated | None:
        with self._lock:
            return self._kept.get(image_id)

    def _keep(self, answers: Answers) -> None:
        """Keep answers, never failures, and forget the oldest: the next capability asks within the same batch."""
        with self._lock:
            self._kept |= {key: answer for key, answer in answers.items() if isinstance(answer, Annotated)}
            while len(self._kept) > ANSWERS_KEPT:
                self._kept.popitem(last=False)


def connect() -> ImageAnnotatorClient:
    """A client with the environment's credentials. Raises MissingProvider when there are none."""
    endpoint = os.environ.get(ENDPOINT)
    if endpoint:
        channel = grpc.insecure_channel(_on_this_machine(endpoint), options=_UNLIMITED)
        return ImageAnnotatorClient(transport=ImageAnnotatorGrpcTransport(channel=channel))
    try:
        return ImageAnnotatorClient()
    except DefaultCredentialsError:
        raise MissingProvider(
            "google_vision: no Google credentials in the environment; set GOOGLE_APPLICATION_CREDENTIALS to a service "
            "account's key file, or run: gcloud auth application-default login"
        ) from None


def _on_this_machine(endpoint: str) -> str:
    """The endpoint, if it is a loopback one: images must not leave unencrypted."""
    host, _, port = endpoint.rpartition(":")
    if not (port.isdecimal() and _is_loopback(host.strip("[]"))):
        raise BadInput(f"{ENDPOINT}={endpoint!r}: only host:port on this machine is allowed, such as 127.0.0.1:8085")
    return endpoint


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _name(error: exceptions.GoogleAPICallError) -> str:
    """The name of the gRPC status in lower case; never the message, which may quote the request."""
    status = error.grpc_status_code
    return type(error).__name__ if status is None else str(status.name).lower()


def _batches(pictures: Iterable[DecodedImage]) -> Iterator[Batch]:
    """Encoded images in requests that respect both limits."""
    batch: list[tuple[DecodedImage, Upload]] = []
    size = 0
    for picture in pictures:
        upload = for_upload(picture)
        if batch and (len(batch) == IMAGES_MAX or size + len(upload.content) > REQUEST_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append((picture, upload))
        size += len(upload.content)
    if batch:
        yield batch


_shared: WeakValueDictionary[str, VisionClient] = WeakValueDictionary()


def shared_client() -> VisionClient:
    """The client of the current endpoint, for as long as a provider uses it. Not for several threads at once."""
    address = os.environ.get(ENDPOINT, "")
    client = _shared.get(address) or VisionClient()
    _shared[address] = client
    return client


class _Feature:
    """One capability: it announces its feature, so that it comes with the first request."""

    service = SERVICE
    feature: int

    def __init__(self, client: VisionClient | None = None) -> None:
        self._client = client or shared_client()
        self._client.want(self.feature)

    def _annotated(self, pictures: Sequence[DecodedImage]) -> list[Annotated | Failed]:
        return self._client.annotate(pictures, self.feature)


class VisionFaces(_Feature):
    """Faces: boxes in the image's own pixels, strongest first. It does not recognise people."""

    version, feature = f"{VERSION}-faces", FACES

    def find_faces(self, pictures: Sequence[DecodedImage]) -> list[list[Face] | Failed]:
        """The faces of every image, in order."""
        return [answer if isinstance(answer, Failed) else answer.faces for answer in self._annotated(pictures)]


class VisionText(_Feature):
    """Text: all lines, and the share of the image that its words cover."""

    version, feature = f"{VERSION}-text", TEXT

    def read(self, pictures: Sequence[DecodedImage]) -> list[ImageText | Failed]:
        """The text of every image, in order."""
        return [answer if isinstance(answer, Failed) else answer.text for answer in self._annotated(pictures)]


class VisionSafeSearch(_Feature):
    """What SafeSearch says of `adult` content; its other kinds (spoof, medical, violence, racy) are not asked about."""

    version, feature = f"{VERSION}-safe-search", SAFE_SEARCH

    def nsfw_probabilities(self, pictures: Sequence[DecodedImage]) -> list[float | Failed]:
        """Probability, 0 to 1, of every image; an image that SafeSearch has no verdict on is not measured."""
        unknown = Failed("no_verdict")
        answers = self._annotated(pictures)
        return [answer if isinstance(answer, Failed) else ADULT.get(answer.adult, unknown) for answer in answers]
