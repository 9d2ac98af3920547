"""Weight files, with a digest: from the Hugging Face hub; and of your own, for OCR and faces by the embedded libraries.

CURATE_OCR_WEIGHTS: a folder with det.onnx and rec.onnx (PP-OCR weights, such as the server models, for RapidOCR); with
keys.txt when rec.onnx does not hold its characters. CURATE_YUNET_WEIGHTS: a file for YuNet (OpenCV's FaceDetectorYN),
such as face_detection_yunet_2023mar.onnx.
"""

import hashlib
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import cv2
import huggingface_hub
import numpy as np

from schemas.errors import MissingProvider
from schemas.signals import Face
from tasks.images.decode import DecodedImage, Pixels
from tasks.providers.capabilities import Failed
from tasks.providers.embedded.image_text import READING, RapidOcr
from tasks.providers.embedded.screening import FACE_CONFIDENCE_MIN, Boxes, face_of, strongest_apart, views
from tasks.runtime.parallel import card_demanded, on_card


def fingerprint(files: Iterable[Path]) -> str:
    """First 8 hex digits of the SHA-256 over the files' own SHA-256 digests, in the order given."""
    whole = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            whole.update(hashlib.file_digest(stream, "sha256").digest())
    return whole.hexdigest()[:8]


def offline() -> bool:
    """Whether HF_HUB_OFFLINE forbids downloads."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in huggingface_hub.constants.ENV_VARS_TRUE_VALUES


def torch_devices() -> list[str]:
    """Names of all cards, or of the CPU. Raises BadInput or MissingProvider where `cuda` is set and torch has none."""
    import torch

    cards = [f"cuda:{number}" for number in range(torch.cuda.device_count())] if on_card() else []
    if card_demanded() and not cards:
        raise MissingProvider("--set device=cuda: this torch has no CUDA; install one that has, or give device=auto")
    return cards or ["cpu"]


def hub_file(repository: str, names: Sequence[str]) -> Path:
    """The first of the files that exists, from the cache or downloaded now. Raises MissingProvider."""
    for name in names:
        cached = huggingface_hub.try_to_load_from_cache(repository, name)
        if isinstance(cached, str):
            return Path(cached)
    try:  # `file_exists` first, because a download without a network is retried for most of a minute
        if not offline() and (name := next((n for n in names if huggingface_hub.file_exists(repository, n)), "")):
            return Path(huggingface_hub.hf_hub_download(repository, name))
    except Exception:  # noqa: S110 - no network, a proxy's page, a gated repository: the message below helps in each case
        pass
    raise MissingProvider(
        f"the weights of {repository} are not in the Hugging Face cache and cannot be downloaded now; "
        f"on a machine with a network run: hf download {repository} {names[0]}"
    )


OCR_WEIGHTS = "CURATE_OCR_WEIGHTS"
_NEEDED, _KEYS = ("det.onnx", "rec.onnx"), "keys.txt"


class RapidOcrWeights(RapidOcr):
    """Reads as the embedded provider does, with other weights."""

    def __init__(self) -> None:
        folder = Path(os.environ.get(OCR_WEIGHTS) or "")
        needed = [folder / name for name in _NEEDED]
        if not os.environ.get(OCR_WEIGHTS) or not all(file.is_file() for file in needed):
            raise MissingProvider(
                f"image_text: set {OCR_WEIGHTS} to a folder with {' and '.join(_NEEDED)} "
                "(PP-OCR weights for onnxruntime)"
            )
        params = {"Det.model_path": str(needed[0]), "Rec.model_path": str(needed[1])}
        if (keys := folder / _KEYS).is_file():
            params, needed = params | {"Rec.rec_keys_path": str(keys)}, [*needed, keys]
        self.version = f"rapidocr-weights-{fingerprint(needed)}-{READING}"
        super().__init__(params)


YUNET_WEIGHTS = "CURATE_YUNET_WEIGHTS"
SIDE_WHOLE = 320
"""Longer side in pixels of the search for large faces."""
_OVERLAP_MAX, _CANDIDATES_MAX = 0.3, 5000


class YuNet:
    """Face boxes in pixels of the image, strongest first.

    An image is searched in the same views as by the embedded provider, and once more at 320 pixels for faces that fill
    it, because the network finds faces of 10 to 300 pixels.
    """

    def __init__(self) -> None:
        self._detector = _detector(Path(os.environ.get(YUNET_WEIGHTS) or ""))
        self._one_at_a_time = threading.Lock()
        self.version = f"yunet-{fingerprint([Path(os.environ[YUNET_WEIGHTS])])}-{SIDE_WHOLE}-as-embedded"

    def find_faces(self, images: Sequence[DecodedImage]) -> list[list[Face] | Failed]:
        """The faces of every image, in order."""
        return [self._find(image) for image in images]

    def _find(self, image: DecodedImage) -> list[Face] | Failed:
        detections = [np.empty((0, 5), np.float32), *self._detections(image)]
        rows = np.concatenate(detections)
        if not np.isfinite(rows).all():
            return Failed("not_a_number")
        rows[:, :4] = np.clip(rows[:, :4], 0, [image.width, image.height] * 2)
        return [face_of(rows[kept, :4], rows[kept, 4]) for kept in strongest_apart(rows[:, :4], rows[:, 4])]

    def _detections(self, image: DecodedImage) -> Iterator[Boxes]:
        """float32 (n, 5) of every view: left, top, right, bottom in image pixels, and confidence."""
        whole = image.fitted(SIDE_WHOLE)
        scale = (image.width / whole.shape[1], image.height / whole.shape[0])
        for rgb, left, top, (wide, high) in ((whole, 0, 0, scale), *views(image)):
            rows = _rows(self._detector, self._one_at_a_time, rgb)
            corners = np.hstack([rows[:, :2], rows[:, :2] + rows[:, 2:4]]) + np.array([left, top] * 2, np.float32)
            yield np.hstack([corners * np.array([wide, high] * 2, np.float32), rows[:, -1:]]).astype(np.float32)


def _rows(detector: cv2.FaceDetectorYN, lock: threading.Lock, rgb: Pixels) -> Boxes:
    """float32 (n, 15) as FaceDetectorYN gives it: x, y, width, height, five landmarks, confidence."""
    bgr = np.ascontiguousarray(rgb[:, :, ::-1])
    with lock:  # the detector keeps the size of its input
        detector.setInputSize((bgr.shape[1], bgr.shape[0]))
        rows = detector.detect(bgr)[1]
    return np.empty((0, 15), np.float32) if rows is None else np.asarray(rows, np.float32)


def _detector(file: Path) -> cv2.FaceDetectorYN:
    """The network of a file, tried on a black image. Raises MissingProvider."""
    if not os.environ.get(YUNET_WEIGHTS) or not file.is_file():
        raise MissingProvider(
            f"faces: set {YUNET_WEIGHTS} to the path of a YuNet file, such as face_detection_yunet_2023mar.onnx of "
            "OpenCV's model zoo (github.com/opencv/opencv_zoo)"
        )
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_ERROR)  # OpenCV 5 warns of every network that it loads
    try:
        detector = cv2.FaceDetectorYN.create(
            str(file), "", (SIDE_WHOLE, SIDE_WHOLE), FACE_CONFIDENCE_MIN, _OVERLAP_MAX, _CANDIDATES_MAX
        )
        _rows(detector, threading.Lock(), np.zeros((64, 64, 3), np.uint8))
    except cv2.error:
        raise MissingProvider(
            f"faces: the file in {YUNET_WEIGHTS} is no YuNet network that this OpenCV ({cv2.__version__}) can run; "
            "take face_detection_yunet_2023mar.onnx"
        ) from None
    return detector
