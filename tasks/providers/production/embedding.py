"""OpenCLIP: pictures and texts in one space, on every GPU there is, else on the CPU.

CURATE_CLIP_MODEL names the architecture, CURATE_CLIP_PRETRAINED its weights: a tag of that model, a checkpoint file,
or `local-dir:` with a folder that holds open_clip_config.json and the weights (either variable may say so).
CURATE_CLIP_PRECISION is fp32, bf16, fp16 or int16 (CPU only); by default bf16 on a GPU, and on a CPU int16 where it has
such products, else fp32.
CURATE_CLIP_COMPILE=1 compiles the model first. CURATE_CLIP_DEVICES names devices, as `cuda:0,cuda:1`.
"""

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch

from schemas.errors import BadInput, known_values
from tasks.pixels.pictures import Picture
from tasks.providers.capabilities import Vectors
from tasks.providers.production.clip_int16 import bears_int16, in_int16
from tasks.providers.production.clip_tiles import one_by_one, tiles_of
from tasks.providers.production.clip_towers import Encode, encoders_of
from tasks.providers.production.clip_weights import MODEL, PRETRAINED, find_checkpoint

DEFAULT_MODEL, DEFAULT_PRETRAINED = "ViT-B-32", "laion2b_s34b_b79k"
PRECISION, COMPILE, DEVICES = "CURATE_CLIP_PRECISION", "CURATE_CLIP_COMPILE", "CURATE_CLIP_DEVICES"
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "int16": torch.float32}
BATCH, CPU_BATCH = 64, 8
"""Items that a device computes at once: a CPU gains nothing by more, and texts of like length are then together."""
IN_FLIGHT = 4
"""Batches that a device holds at a time."""

Prepare = Callable[[Any, torch.device], torch.Tensor]


@dataclass(frozen=True)
class Replica:
    """The model on one device. A few batches are prepared and copied beside each other, and queue for the model."""

    device: torch.device
    model: Any
    encode_image: Encode
    encode_text: Encode
    prepare: Prepare
    """Pictures -> batch on the device."""
    tokenize: Callable[[list[str]], torch.Tensor]
    turns: SimpleQueue[AbstractContextManager[Any]]
    """Of a GPU each is a queue of its own, so that one batch is copied while another computes."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One of IN_FLIGHT turns: what a device holds at a time does not grow with the number of threads."""
        turn = self.turns.get()
        try:
            with turn:
                yield
        finally:
            self.turns.put(turn)


def _turns(device: torch.device) -> SimpleQueue[AbstractContextManager[Any]]:
    turns: SimpleQueue[AbstractContextManager[Any]] = SimpleQueue()
    for _ in range(IN_FLIGHT):
        on_gpu = device.type == "cuda"
        turns.put(torch.cuda.stream(torch.cuda.Stream(device)) if on_gpu else nullcontext())  # type: ignore[no-untyped-call]
    return turns


class OpenClip:
    """Unit vectors of pictures and of texts from one model.

    Devices and 16 bits are no part of `version`: they move a vector by far less than a JPEG round trip does, and a new
    machine must not mean measuring everything again.
    """

    def __init__(self) -> None:
        model, pretrained = os.environ.get(MODEL), os.environ.get(PRETRAINED)
        self._devices = _devices()
        self._precision = _precision(self._devices)
        self._checkpoint = find_checkpoint(model or DEFAULT_MODEL, pretrained or DEFAULT_PRETRAINED)
        if os.environ.get(PRECISION) == "int16" and not bears_int16(self._checkpoint.without_weights()):
            raise BadInput(
                f"{PRECISION}: int16 knows no layer of {self._checkpoint.model}; choose fp32, or leave it out"
            )
        self.version = self._checkpoint.version
        self._turn = itertools.count()
        self._loading = threading.Lock()

    @cached_property
    def replicas(self) -> list[Replica]:
        """One for each device, loaded when first needed."""
        return [self._load(device) for device in self._devices]

    def _load(self, device: torch.device) -> Replica:
        model, transform, tokenize, wanted = self._checkpoint.load(device)
        tiles = tiles_of(wanted)
        encoders = encoders_of(model)
        if self._precision == "int16":
            in_int16(model)
        image, text = encoders.image, encoders.text
        if os.environ.get(COMPILE) == "1":
            image, text = (torch.compile(encode, dynamic=True) for encode in (image, text))
        prepare = tiles.batch if tiles else one_by_one(transform)
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # a batch's queue does not wait for the one that brought the weights
        return Replica(device, model, image, text, prepare, lambda texts: encoders.cut(tokenize(texts)), _turns(device))

    def embed_images(self, pictures: Sequence[Picture]) -> Vectors:
        """float32 (n, dimension), unit length."""
        return self._embed(lambda replica: (replica.prepare, replica.encode_image), pictures)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """float32 (n, dimension), unit length. The model reads the beginning: 77 tokens in most architectures."""
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))  # short ones need not wait for long ones
        made = self._embed(
            lambda replica: (lambda some, device: replica.tokenize(some).to(device), replica.encode_text),
            [texts[place] for place in order],
        )
        return made[np.argsort(order)] if order else made

    def _embed(self, ways: Callable[[Replica], tuple[Prepare, Encode]], items: Sequence[Any]) -> Vectors:
        """Batches go to the devices in turn; several threads may call, and a device works on one batch at a time."""
        made, start = [], 0
        while start < len(items):
            replica = self._next()
            end = start + (CPU_BATCH if replica.device.type == "cpu" else BATCH)
            made.append(self._vectors(replica, *ways(replica), items[start:end]))
            start = end
        return np.concatenate(made) if made else np.zeros((0, 0), np.float32)

    def _next(self) -> Replica:
        with self._loading:
            return self.replicas[next(self._turn) % len(self._devices)]

    def _vectors(self, replica: Replica, prepare: Prepare, encode: Encode, some: Sequence[Any]) -> Vectors:
        """Where the memory of a device is too small for a batch, its halves."""
        try:
            return self._vectors_at_once(replica, prepare, encode, some)
        except torch.OutOfMemoryError:
            if len(some) == 1:
                raise
        torch.cuda.empty_cache()
        halves = some[: len(some) // 2], some[len(some) // 2 :]
        return np.concatenate([self._vectors(replica, prepare, encode, half) for half in halves])

    def _vectors_at_once(self, replica: Replica, prepare: Prepare, encode: Encode, some: Sequence[Any]) -> Vectors:
        kind = replica.device.type
        halved = torch.autocast(kind, TYPES[self._precision], enabled=self._precision in ("bf16", "fp16"))
        with replica.turn(), torch.inference_mode():
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
    on_gpu, able = any(device.type == "cuda" for device in devices), torch.cpu._is_vnni_supported()
    compiled = os.environ.get(COMPILE) == "1"
    on_cpu = "int16" if able and not compiled else "fp32"
    named = os.environ.get(PRECISION) or ("bf16" if on_gpu else on_cpu)
    if named not in TYPES:
        raise BadInput(f"{PRECISION}: unknown precision {known_values(named, TYPES)}")
    if named == "int16" and compiled:
        raise BadInput(f"{COMPILE}: what runs in int16 is compiled already; leave {COMPILE} out, or choose fp32")
    if named == "int16" and on_gpu:
        raise BadInput(f"{PRECISION}: int16 runs on CPUs only; choose bf16, fp16 or fp32, or {DEVICES}=cpu")
    if named == "int16" and not able:
        raise BadInput(f"{PRECISION}: this processor has no products of 16 bits (AVX-512 VNNI); choose fp32")
    return named
