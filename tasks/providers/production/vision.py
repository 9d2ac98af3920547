"""Google Cloud Vision: up to 16 pictures a request, every wanted feature at once, each answer kept for the next asker.

Credentials: Application Default Credentials (GOOGLE_APPLICATION_CREDENTIALS, gcloud, or the machine's own identity).
CURATE_VISION_ENDPOINT=host:port speaks to a server on this machine instead, without credentials.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from weakref import WeakValueDictionary

from google.api_core.exceptions import (
    DeadlineExceeded,
    GoogleAPICallError,
    InvalidArgument,
    PermissionDenied,
    ResourceExhausted,
    ServiceUnavailable,
    Unauthenticated,
)
from google.auth.exceptions import GoogleAuthError
from google.cloud.vision_v1 import (
    AnnotateImageRequest,
    AnnotateImageResponse,
    Feature,
    Image,
    ImageAnnotatorClient,
)

from schemas.run import Use
from tasks.pixels.pictures import Picture
from tasks.providers.capabilities import Failed
from tasks.providers.production.retries import CallFailed, Retries
from tasks.providers.production.upload import SIDE_MAX, Upload, for_upload
from tasks.providers.production.vision_answers import Annotated, annotated
from tasks.providers.production.vision_channel import ENDPOINT, connect
from tasks.running.parallel import map_ordered
from tasks.spending.ledger import ledger

VERSION = f"google-vision-v1-max{SIDE_MAX}"
SERVICE = "google_vision"
"""Name in the price file and in the record of use."""
IMAGES_MAX = 16
"""Pictures in one synchronous request (Vision's quota page)."""
REQUEST_BYTES_MAX = 7_000_000
"""Bytes of pictures in one request; as JSON's base64 they stay below Vision's 10 MB."""
REQUESTS_AT_ONCE = 4
TIMEOUT_SECONDS = 60.0
FACES_MAX = 100
"""Faces asked for; without it Vision stops at 10."""
ANSWERS_KEPT = 4096
FACES, TEXT = Feature.Type.FACE_DETECTION, Feature.Type.TEXT_DETECTION
SAFE_SEARCH = Feature.Type.SAFE_SEARCH_DETECTION

Batch = Sequence[tuple[Picture, Upload]]
Answers = dict[str, Annotated | Failed]


class VisionClient:
    """One connection, shared by the capabilities that use Vision, so that a picture is sent once for all of them.

    Vision bills every feature of every picture; a client asks for the features that its users have announced.
    """

    def __init__(self, stub: ImageAnnotatorClient | None = None, retries: Retries | None = None) -> None:
        self._stub = stub or connect()
        self._retries = retries or Retries()
        self._wanted: set[int] = set()
        self._kept: OrderedDict[str, Annotated] = OrderedDict()
        self._lock = threading.Lock()

    def want(self, feature: int) -> None:
        """Announce a feature, before the first picture."""
        self._wanted.add(feature)

    def annotate(self, pictures: Sequence[Picture], feature: int) -> list[Annotated | Failed]:
        """What Vision says of every picture, in order, with at least this feature."""
        self.want(feature)
        answers: Answers = {}
        unknown: dict[str, Picture] = {}
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
        features = [Feature(type_=feature, max_results=FACES_MAX) for feature in sorted(self._wanted)]
        images = [Image(content=upload.content) for _, upload in batch]
        requests = [AnnotateImageRequest(image=image, features=features) for image in images]
        try:
            responses = self._retries.call(lambda: self._paid(requests, len(features)))
        except CallFailed as failure:
            return {picture.image_id: Failed(failure.reason) for picture, _ in batch}
        wanted = frozenset(feature.type_ for feature in features)
        pairs = zip(batch, responses, strict=True)
        return {picture.image_id: self._answer(picture, upload, wanted, said) for (picture, upload), said in pairs}

    def _paid(self, requests: list[AnnotateImageRequest], features: int) -> Sequence[AnnotateImageResponse]:
        """One attempt within the budget. Vision bills every feature of every picture, its failed ones included."""
        units = len(requests) * features
        price = ledger().prices.unit_usd(SERVICE)
        bill = ledger().reserve(SERVICE, None if price is None else units * price)
        if bill is None:
            raise CallFailed("budget_reached")
        with bill:
            try:
                responses = self._call(requests)
            except CallFailed as failure:
                if failure.unbilled:
                    bill.nothing()
                raise
            bill.settle(Use(calls=1, units=units, usd=units * (price or 0.0)))
            return responses

    def _call(self, requests: list[AnnotateImageRequest]) -> Sequence[AnnotateImageResponse]:
        """One attempt; the library's own retries are off, because they leave out an exhausted quota."""
        try:
            answer = self._stub.batch_annotate_images(requests=requests, retry=None, timeout=TIMEOUT_SECONDS)
        except ResourceExhausted as error:
            raise CallFailed(_name(error), may_pass=True, unbilled=True) from None
        except (ServiceUnavailable, DeadlineExceeded) as error:
            raise CallFailed(_name(error), may_pass=True) from None
        except (PermissionDenied, Unauthenticated, InvalidArgument) as error:
            raise CallFailed(_name(error), unbilled=True) from None
        except GoogleAPICallError as error:
            raise CallFailed(_name(error)) from None
        except GoogleAuthError:
            raise CallFailed("not_signed_in", unbilled=True) from None
        if len(answer.responses) != len(requests):
            raise CallFailed("wrong_number_of_answers")
        return list(answer.responses)

    def _answer(
        self, picture: Picture, upload: Upload, features: frozenset[int], said: AnnotateImageResponse
    ) -> Annotated | Failed:
        answer = annotated(picture, upload, features, said)
        if isinstance(answer, Annotated):
            self._keep(picture.image_id, answer)
        return answer

    def _recall(self, image_id: str) -> Annotated | None:
        with self._lock:
            return self._kept.get(image_id)

    def _keep(self, image_id: str, answer: Annotated) -> None:
        """Keep an answer, never a failure, and forget the oldest: the next capability asks within the same batch."""
        with self._lock:
            self._kept[image_id] = answer
            if len(self._kept) > ANSWERS_KEPT:
                self._kept.popitem(last=False)


def _name(error: GoogleAPICallError) -> str:
    """The name of the gRPC status in lower case; never the message, which may quote the request."""
    status = error.grpc_status_code
    return type(error).__name__ if status is None else str(status.name).lower()


def _batches(pictures: Iterable[Picture]) -> Iterator[Batch]:
    """Encoded pictures in requests that respect both limits."""
    batch: list[tuple[Picture, Upload]] = []
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
_sharing = threading.Lock()


def shared_client() -> VisionClient:
    """The client of this process for the current endpoint; it goes when the last provider that uses it goes."""
    address = os.environ.get(ENDPOINT, "")
    with _sharing:
        client = _shared.get(address) or VisionClient()
        _shared[address] = client
    return client
