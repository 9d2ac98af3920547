"""OpenCLIP: unit vectors of images and texts in one space, by open_clip's own model, transform and tokenizer.

CURATE_CLIP_MODEL names the architecture, CURATE_CLIP_PRETRAINED its weights: a tag of that model, a checkpoint file,
or `local-dir:` with a folder that holds open_clip_config.json and the weights (either variable may say so).
CURATE_CLIP_PRECISION is fp32, bf16 or fp16; the default is bf16 on a GPU and fp32 on a CPU.
CURATE_CLIP_DEVICES names devices, as `cuda:0,cuda:1`; the default is every GPU, else the CPU.
CURATE_CLIP_COMPILE=1 compiles the model with torch.compile.
"""

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import PIL.Image
import torch
from open_clip.constants import HF_SAFE_WEIGHTS_NAME, HF_WEIGHTS_NAME

from schemas.errors import BadInput, MissingProvider, known_values
from tasks.images.decode import DecodedImage
from tasks.providers.capabilities import Vectors
from tasks.providers.production.weights import fingerprint, hub_file

MODEL, PRETRAINED = "CURATE_CLIP_MODEL", "CURATE_CLIP_PRETRAINED"
PRECISION, COMPILE, DEVICES = "CURATE_CLIP_PRECISION", "CURATE_CLIP_COMPILE", "CURATE_CLIP_DEVICES"
DEFAULT_MODEL, DEFAULT_PRETRAINED = "ViT-B-32", "laion2b_s34b_b79k"
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
BATCH = 64
LOCAL_DIR = "local-dir:"
SLENDER = 16
"""Ratio of sides above which only the middle of an image is given to the transform."""


@dataclass(frozen=True)
class Checkpoint:
    """Weights, and how open_clip loads them."""

    version: str
    """Library, model and a digest of the weights; the same wherever the files are."""
    model: str
    """Name of an open_clip configuration, or `local-dir:` with a folder."""
    file: Path | None
    """The weight file; None when the folder holds it."""
    settings: dict[str, Any]
    """How these weights want images prepared; empty where the configuration says it."""


@dataclass(frozen=True)
class Replica:
    """The model on one device."""

    device: torch.device
    encode_image: Callable[[torch.Tensor], torch.Tensor]
    encode_text: Callable[[torch.Tensor], torch.Tensor]
    prepare: Callable[[PIL.Image.Image], torch.Tensor]
    tokenize: Callable[[list[str]], torch.Tensor]
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held during a forward pass; threads prepare their batches outside it."""


class OpenClip:
    """Embeds images and texts. Batches go to the devices in turn.

    Device and precision are not part of `version`: bf16 moves a vector less than a JPEG round trip does, and a new
    machine must not mean measuring everything again.
    """

    def __init__(self) -> None:
        self._devices = _devices()
        self._dtype = _dtype(self._devices)
        self._checkpoint = find_checkpoint(
            os.environ.get(MODEL) or DEFAULT_MODEL, os.environ.get(PRETRAINED) or DEFAULT_PRETRAINED
        )
        self.version = self._checkpoint.version
        self._turn = itertools.count()

    @cached_property
    def replicas(self) -> list[Replica]:
        """The model on every device, loaded when first used."""
        return [self._load(device) for device in self._devices]

    def _load(self, device: torch.device) -> Replica:
        found = self._checkpoint
        model, prepare = open_clip.create_model_from_pretrained(
            found.model, pretrained=str(found.file) if found.file else None, device=device, **found.settings
        )
        model.eval()
        image, text = model.encode_image, model.encode_text
        if os.environ.get(COMPILE) == "1":
            image, text = torch.compile(image, dynamic=True), torch.compile(text, dynamic=True)
        shortest = open_clip.get_model_preprocess_cfg(model)["resize_mode"] == "shortest"
        transform = (lambda image: prepare(middle(image))) if shortest else prepare
        return Replica(device, image, text, transform, open_clip.get_tokenizer(found.model))

    def embed_images(self, pictures: Sequence[DecodedImage]) -> Vectors:
        """float32 (n, dimension), unit length."""
        return self._embed(pictures, self._images)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """float32 (n, dimension), unit length. Most architectures read the first 77 tokens."""
        return self._embed(texts, self._texts)

    def _embed(self, items: Sequence[Any], vectors: Callable[[Replica, Sequence[Any]], torch.Tensor]) -> Vectors:
        made = []
        for start in range(0, len(items), BATCH):
            replica = self.replicas[next(self._turn) % len(self._devices)]
            made.append(vectors(replica, items[start : start + BATCH]))
        if not made:
            return np.zeros((0, 0), np.float32)
        found = torch.cat(made)
        if not torch.isfinite(found).all():
            raise ValueError("a vector is not finite")  # stored, it would be near to everything or to nothing
        return found.numpy()

    def _images(self, replica: Replica, pictures: Sequence[DecodedImage]) -> torch.Tensor:
        batch = torch.stack([replica.prepare(picture.pil) for picture in pictures])
        return self._forward(replica, replica.encode_image, batch)

    def _texts(self, replica: Replica, texts: Sequence[str]) -> torch.Tensor:
        return self._forward(replica, replica.encode_text, replica.tokenize(list(texts)))

    def _forward(
        self, replica: Replica, encode: Callable[[torch.Tensor], torch.Tensor], batch: torch.Tensor
    ) -> torch.Tensor:
        autocast = torch.autocast(replica.device.type, self._dtype, enabled=self._dtype is not torch.float32)
        with replica.lock, torch.inference_mode(), autocast:
            return _in_halves(encode, batch.to(replica.device))


def _in_halves(encode: Callable[[torch.Tensor], torch.Tensor], batch: torch.Tensor) -> torch.Tensor:
    """Unit vectors on the CPU; a batch that is too large for the device's memory is split."""
    try:
        return torch.nn.functional.normalize(encode(batch).float(), dim=-1).cpu()
    except torch.OutOfMemoryError:
        if len(batch) == 1:
            raise
    torch.cuda.empty_cache()
    return torch.cat([_in_halves(encode, half) for half in batch.chunk(2)])


def middle(image: PIL.Image.Image) -> PIL.Image.Image:
    """What a transform that crops the middle square can see: resized whole, 1 x 20,000 pixels would take 3 GB."""
    width, height = image.size
    longest = SLENDER * min(width, height)
    if max(width, height) <= longest:
        return image
    left, top = max(0, (width - longest) // 2), max(0, (height - longest) // 2)
    return image.crop((left, top, min(width, left + longest), min(height, top + longest)))


def find_checkpoint(model: str, pretrained: str) -> Checkpoint:
    """The checkpoint that the two names mean. Raises BadInput for unknown names, MissingProvider for absent weights."""
    folder = next((name for name in (model, pretrained) if name.startswith(LOCAL_DIR)), None)
    if folder is not None:
        return _in_folder(folder)
    if model not in open_clip.list_models():
        raise BadInput(f"{MODEL}: unknown model {known_values(model, open_clip.list_models())}")
    name = f"open_clip-{open_clip.__version__}-{model}"
    tag = open_clip.get_pretrained_cfg(model, pretrained)
    if tag:
        file = _from_hub(tag["hf_hub"])
        return Checkpoint(f"{name}-{pretrained}-{fingerprint([file])}", model, file, _settings(tag))
    file = Path(pretrained)
    if file.is_file():
        return Checkpoint(f"{name}-{fingerprint([file])}", model, file, {})
    tags = open_clip.list_pretrained_tags_by_model(model)
    raise BadInput(f"{PRETRAINED}: neither a file nor a tag of {model}. Known tags: {', '.join(tags) or 'none'}")


def _in_folder(name: str) -> Checkpoint:
    folder = Path(name.removeprefix(LOCAL_DIR))
    config = folder / "open_clip_config.json"
    weights = sorted(file for file in folder.glob("*") if file.suffix in (".safetensors", ".bin", ".pth"))
    if not config.is_file() or not weights:
        raise MissingProvider(f"{PRETRAINED}: the {LOCAL_DIR} folder must hold {config.name} and a weight file")
    version = f"open_clip-{open_clip.__version__}-local-{fingerprint([config, *weights])}"
    return Checkpoint(version, name, None, {})


def _settings(tag: dict[str, Any]) -> dict[str, Any]:
    """What open_clip itself takes from a tag, and the activation, where it only warns that the tag wants another."""
    preparation = {f"image_{key}": tag[key] for key in ("mean", "std", "interpolation", "resize_mode")}
    return preparation | {"force_quick_gelu": tag.get("quick_gelu", False)}


def _from_hub(address: str) -> Path:
    """The file of an `org/name/file` address; without a file name, open_clip's usual ones."""
    repository, _, file = address.rpartition("/")
    names = [file.replace(".bin", ".safetensors"), file] if file else [HF_SAFE_WEIGHTS_NAME, HF_WEIGHTS_NAME]
    return hub_file(repository, names)


def _devices() -> list[torch.device]:
    """What CURATE_CLIP_DEVICES names, else every GPU, else the CPU. Raises BadInput for what is no device."""
    there = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    named = [name.strip() for name in os.environ.get(DEVICES, "").split(",") if name.strip()]
    for name in named:
        if name not in (*there, "cpu"):
            raise BadInput(f"{DEVICES}: no such device {known_values(name, [*there, 'cpu'])}")
    return [torch.device(name) for name in named or there or ["cpu"]]


def _dtype(devices: Sequence[torch.device]) -> torch.dtype:
    on_gpu = any(device.type == "cuda" for device in devices)
    named = os.environ.get(PRECISION) or ("bf16" if on_gpu else "fp32")
    if named not in TYPES:
        raise BadInput(f"{PRECISION}: unknown precision {known_values(named, TYPES)}")
    return TYPES[named]
