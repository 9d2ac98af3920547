"""OpenCLIP: pictures and texts in one space, on every GPU there is, else on the CPU.

CURATE_CLIP_MODEL names the architecture, CURATE_CLIP_PRETRAINED its weights: a tag of that model, a checkpoint file,
or `local-dir:` with a folder that holds open_clip_config.json and the weights (either variable may say so).
CURATE_CLIP_PRECISION is fp32, bf16, fp16 or int8 (CPU only); by default bf16 on a GPU and fp32 on a CPU.
CURATE_CLIP_COMPILE=1 compiles the model first. CURATE_CLIP_DEVICES names devices, as `cuda:0,cuda:1`.
"""

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

from schemas.errors import BadInput, known_values
from tasks.pictures import Picture
from tasks.providers.capabilities import Vectors
from tasks.providers.production.clip_int8 import in_int8
from tasks.providers.production.clip_tiles import one_by_one, tiles_of
from tasks.providers.production.clip_weights import MODEL, PRETRAINED, find_checkpoint

DEFAULT_MODEL, DEFAULT_PRETRAINED = "ViT-B-32", "laion2b_s34b_b79k"
PRECISION, COMPILE, DEVICES = "CURATE_CLIP_PRECISION", "CURATE_CLIP_COMPILE", "CURATE_CLIP_DEVICES"
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "int8": torch.float32}
BATCH = 64

Encode = Callable[..., Any]
Prepare = Callable[[Any, torch.device], torch.Tensor]


@dataclass(frozen=True)
class Replica:
    """The model on one device. Threads prepare and copy beside each other, and queue for the model only."""

    device: torch.device
    encode_image: Encode
    encode_text: Encode
    prepare: Prepare
    """Pictures -> batch on the device."""
    tokenize: Callable[[list[str]], torch.Tensor]
    lock: threading.Lock = field(default_factory=threading.Lock)

    def stream(self) -> AbstractContextManager[Any]:
        """A queue of the GPU's for one batch, so that its copies run while another batch computes."""
        if self.device.type != "cuda":
            return nullcontext()
        context: AbstractContextManager[Any] = torch.cuda.stream(torch.cuda.Stream(self.device))  # type: ignore[no-untyped-call]
        return context


class OpenClip:
    """Unit vectors of pictures and of texts from one model.

    Devices and 16 bits are no part of `version`: they move a vector by far less than a JPEG round trip does, and a new
    machine must not mean measuring everything again. 8-bit weights are.
    """

    def __init__(self) -> None:
        model, pretrained = os.environ.get(MODEL), os.environ.get(PRETRAINED)
        self._devices = _devices()
        self._precision = _precision(self._devices)
        self._checkpoint = find_checkpoint(model or DEFAULT_MODEL, pretrained or DEFAULT_PRETRAINED)
        self.version = self._checkpoint.version + ("-int8" if self._precision == "int8" else "")
        self._turn = itertools.count()
        self._loading = threading.Lock()

    @cached_property
    def _replicas(self) -> list[Replica]:
        return [self._load(device) for device in self._devices]

    def _load(self, device: torch.device) -> Replica:
        loaded, transform, tokenize, wanted = self._checkpoint.load(device)
        tiles = tiles_of(wanted)
        model: Any = in_int8(loaded) if self._precision == "int8" else loaded
        encoders: list[Encode] = [model.encode_image, model.encode_text]
        if os.environ.get(COMPILE) == "1":
            encoders = [torch.compile(encode, dynamic=True) for encode in encoders]
        image, text = encoders
        return Replica(device, image, text, tiles.batch if tiles else one_by_one(transform), tokenize)

    def embed_images(self, pictures: Sequence[Picture]) -> Vectors:
        """float32 (n, dimension), unit length."""
        return self._embed(lambda replica: (replica.prepare, replica.encode_image), pictures)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """float32 (n, dimension), unit length. The model reads the beginning: 77 tokens in most architectures."""
        return self._embed(
            lambda replica: (lambda some, device: replica.tokenize(list(some)).to(device), replica.encode_text), texts
        )

    def _embed(self, ways: Callable[[Replica], tuple[Prepare, Encode]], items: Sequence[Any]) -> Vectors:
        """Batches go to the devices in turn; several threads may call, and a device works on one batch at a time."""
        made = []
        for start in range(0, len(items), BATCH):
            replica = self._next()
            made.append(self._vectors(replica, *ways(replica), items[start : start + BATCH]))
        return np.concatenate(made) if made else np.zeros((0, 0), np.float32)

    def _next(self) -> Replica:
        with self._loading:
            return self._replicas[next(self._turn) % len(self._devices)]

    def _vectors(self, replica: Replica, prepare: Prepare, encode: Encode, some: Sequence[Any]) -> Vectors:
        kind = replica.device.type
        halved = torch.autocast(kind, TYPES[self._precision], enabled=self._precision in ("bf16", "fp16"))
        with replica.stream(), torch.inference_mode():
            batch = prepare(some, replica.device)
            with replica.lock, halved:
                found = torch.nn.functional.normalize(encode(batch).float(), dim=-1)
            vectors = found.cpu()
        if not torch.isfinite(vectors).all():
            raise ValueError("a vector is not finite")  # stored, it would be near to everything or nothing
        return vectors.numpy()


def _devices() -> list[torch.device]:
    """What CURATE_CLIP_DEVICES names, else every GPU, else the CPU. Raises BadInput for what is no device."""
    there = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    named = [name.strip() for name in os.environ.get(DEVICES, "").split(",") if name.strip()]
    for name in named:
        if name not in (*there, "cpu"):
            raise BadInput(f"{DEVICES}: no such device {known_values(name, [*there, 'cpu'])}")
    return [torch.device(name) for name in named or there or ["cpu"]]


def _precision(devices: Sequence[torch.device]) -> str:
    on_gpu = any(device.type == "cuda" for device in devices)
    named = os.environ.get(PRECISION) or ("bf16" if on_gpu else "fp32")
    if named not in TYPES:
        raise BadInput(f"{PRECISION}: unknown precision {known_values(named, TYPES)}")
    if on_gpu and named == "int8":
        raise BadInput(f"{PRECISION}: int8 runs on CPUs only; choose bf16, fp16 or fp32, or {DEVICES}=cpu")
    return named
