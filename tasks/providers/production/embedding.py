"""OpenCLIP: pictures and texts in one space.

CURATE_CLIP_MODEL names the architecture, CURATE_CLIP_PRETRAINED its weights: a tag of that model, a checkpoint file,
or `local-dir:` with a folder that holds open_clip_config.json and the weights (either variable may say so).
"""

import os
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from tasks.pictures import Picture
from tasks.providers.capabilities import Vectors
from tasks.providers.production.clip_weights import MODEL, PRETRAINED, find_checkpoint

DEFAULT_MODEL, DEFAULT_PRETRAINED = "ViT-B-32", "laion2b_s34b_b79k"
BATCH = 64


class OpenClip:
    """Unit vectors of pictures and of texts from one model, on the GPU when there is one.

    The device is not part of `version`: bfloat16 moves a vector by far less than a JPEG round trip does, and a new
    machine must not mean measuring everything again.
    """

    def __init__(self) -> None:
        model, pretrained = os.environ.get(MODEL), os.environ.get(PRETRAINED)
        self._checkpoint = find_checkpoint(model or DEFAULT_MODEL, pretrained or DEFAULT_PRETRAINED)
        self.version = self._checkpoint.version
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._one_at_a_time = threading.Lock()

    @cached_property
    def _loaded(self) -> tuple[Any, Callable[[Any], torch.Tensor], Callable[[list[str]], Any]]:
        return self._checkpoint.load(self._device)

    def embed_images(self, pictures: Sequence[Picture]) -> Vectors:
        """float32 (n, dimension), unit length."""
        model, prepare, _ = self._loaded
        return self._embed(model.encode_image, lambda some: torch.stack([prepare(p.pil) for p in some]), pictures)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """float32 (n, dimension), unit length. The model reads the beginning: 77 tokens in most architectures."""
        model, _, tokenize = self._loaded
        return self._embed(model.encode_text, lambda some: tokenize(list(some)), texts)

    def _embed(self, encode: Callable[..., Any], prepare: Callable[[Any], Any], items: Sequence[Any]) -> Vectors:
        batches = [items[start : start + BATCH] for start in range(0, len(items), BATCH)]
        if not batches:
            return np.zeros((0, 0), np.float32)
        return np.concatenate([self._vectors(encode, prepare(batch)) for batch in batches])

    def _vectors(self, encode: Callable[..., Any], batch: torch.Tensor) -> Vectors:
        """One batch through the model; pictures were prepared before, so that threads only queue for the model."""
        on_gpu = self._device.type == "cuda"
        with self._one_at_a_time, torch.inference_mode(), torch.autocast(self._device.type, torch.bfloat16, on_gpu):
            vectors = torch.nn.functional.normalize(encode(batch.to(self._device)).float(), dim=-1).cpu()
        if not torch.isfinite(vectors).all():
            raise ValueError("a vector is not finite")  # stored, it would be near to everything or nothing
        return vectors.numpy()
