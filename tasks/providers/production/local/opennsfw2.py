"""OpenNSFW2 (Keras on torch): the opennsfw2 package with Yahoo's weights.

Weights: the file in CURATE_OPENNSFW2_WEIGHTS, or the package's own file, which is downloaded when it is missing.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import keras
import numpy as np
import opennsfw2
import torch

from schemas.errors import MissingProvider
from tasks.images.decode import DecodedImage
from tasks.providers.capabilities import Failed
from tasks.providers.production.local.weights import fingerprint, offline, torch_devices
from tasks.runtime.parallel import batch_of

NSFW_WEIGHTS = "CURATE_OPENNSFW2_WEIGHTS"
NSFW_BATCH = 16


class OpenNsfw2:
    """Probability of pornography, on the device that is chosen."""

    def __init__(self) -> None:
        self._file = _weights()
        self.version = f"opennsfw2-{version('opennsfw2')}-{fingerprint([self._file])}"
        self._device = torch_devices()[0]
        self._one_at_a_time = threading.Lock()

    @cached_property
    def _model(self) -> keras.Model:
        with keras.device(self._device):
            return opennsfw2.make_open_nsfw_model(weights_path=str(self._file))

    def nsfw_probabilities(self, images: Sequence[DecodedImage]) -> list[float | Failed]:
        """Probability, 0 to 1, of every image."""
        size = batch_of(NSFW_BATCH)
        batches = (images[start : start + size] for start in range(0, len(images), size))
        probabilities = [probability for batch in batches for probability in self._batch(batch)]
        # NaN would pass every `>=` rule of a policy
        return [
            nsfw_probability if 0.0 <= nsfw_probability <= 1.0 else Failed("not_a_probability")
            for nsfw_probability in probabilities
        ]

    def _batch(self, images: Sequence[DecodedImage]) -> list[float]:
        preprocessing = opennsfw2.Preprocessing.YAHOO
        pixels = np.stack([opennsfw2.preprocess_image(image.pil, preprocessing) for image in images])
        with (
            self._one_at_a_time,
            keras.device(self._device),
            torch.no_grad(),
        ):  # opennsfw2 would keep gradients, and fail on them
            probabilities: Any = self._model(pixels)[:, 1].cpu()
        return [float(probability) for probability in probabilities]


def _weights() -> Path:
    """The given file, or the package's own, which is downloaded by building its model. Raises MissingProvider."""
    if named_file := os.environ.get(NSFW_WEIGHTS):
        if Path(named_file).is_file():
            return Path(named_file)
        raise MissingProvider(f"nsfw: {NSFW_WEIGHTS} names no file; give the path of open_nsfw_weights.h5, or unset it")
    home = Path(os.environ.get("OPENNSFW2_HOME") or Path.home())
    file = home / ".opennsfw2" / "weights" / "open_nsfw_weights.h5"
    try:
        if not file.is_file():
            if offline():
                raise FileNotFoundError(file)
            with contextlib.redirect_stdout(sys.stderr):  # the download prints, but stdout is for our JSON
                opennsfw2.make_open_nsfw_model(weights_path=str(file))
    except Exception:  # the downloader raises many types; the remedy is the same
        raise MissingProvider(
            f"nsfw: the opennsfw2 weights are not here and could not be downloaded; on a machine with a network "
            f"fetch open_nsfw_weights.h5 (github.com/bhky/opennsfw2, release v0.1.0) and set {NSFW_WEIGHTS} to its path"
        ) from None
    return file
