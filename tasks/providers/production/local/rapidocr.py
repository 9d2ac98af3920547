"""OCR by RapidOCR with PP-OCR weights of your own, such as the server models, from a folder.

CURATE_OCR_WEIGHTS: a folder with det.onnx and rec.onnx; with keys.txt when rec.onnx does not hold its characters.
"""

import os
from pathlib import Path

from schemas.errors import MissingProvider
from tasks.providers.embedded.image_text import READING, RapidOcr
from tasks.providers.production.local.weights import fingerprint

WEIGHTS = "CURATE_OCR_WEIGHTS"
_NEEDED, _KEYS = ("det.onnx", "rec.onnx"), "keys.txt"


class RapidOcrWeights(RapidOcr):
    """Reads as the embedded provider does, with other weights."""

    def __init__(self) -> None:
        folder = Path(os.environ.get(WEIGHTS) or "")
        needed = [folder / name for name in _NEEDED]
        if not os.environ.get(WEIGHTS) or not all(file.is_file() for file in needed):
            raise MissingProvider(
                f"image_text: set {WEIGHTS} to a folder with {' and '.join(_NEEDED)} (PP-OCR weights for onnxruntime)"
            )
        params = {"Det.model_path": str(needed[0]), "Rec.model_path": str(needed[1])}
        if (keys := folder / _KEYS).is_file():
            params, needed = params | {"Rec.rec_keys_path": str(keys)}, [*needed, keys]
        self.version = f"rapidocr-weights-{fingerprint(needed)}-{READING}"
        super().__init__(params)
