"""OpenCLIP: unit vectors of images and texts in one space, by open_clip's own model, transform and tokenizer.

CURATE_CLIP_MODEL names the architecture, CURATE_CLIP_PRETRAINED its weights: a tag of that model, a checkpoint file,
or `local-dir:` with a folder that holds open_clip_config.json and the weights (either variable may say so).
CURATE_CLIP_PRECISION is fp32, bf16 or fp16; the default is bf16 on a GPU and fp32 on a CPU.
CURATE_CLIP_DEVICES names devices, as `cuda:0,cuda:1`; the default is every GPU that `device` allows, else the CPU.
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
from tasks.providers.production.local.weights import fingerprint, hub_file, torch_devices
from tasks.runtime.arrays import Vectors
from tasks.runtime.parallel import batch_of

CLIP_MODEL_VARIABLE, PRETRAINED = "CURATE_CLIP_MODEL", "CURATE_CLIP_PRETRAINED"
CLIP_PRECISION_VARIABLE, COMPILE, DEVICES = "CURATE_CLIP_PRECISION", "CURATE_CLIP_COMPILE", "CURATE_CLIP_DEVICES"
DEFAULT_MODEL, DEFAULT_PRETRAINED = "ViT-B-32", "laion2b_s34b_b79k"
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
CLIP_BATCH = 64
LOCAL_DIR = "local-dir:"
Encode = Callable[[torch.Tensor], torch.Tensor]
SLENDER_RATIO = 16
"""Side ratio above which only the middle of an image is passed to the transform."""


@dataclass(frozen=True)
class Checkpoint:
    """Weights and how open_clip loads them."""

    version: str
    """Library, model and a digest of the weights; the same wherever the files are."""
    model: str
    """Name of an open_clip configuration, or `local-dir:` with a folder."""
    file: Path | None
    """The weight file; None for a `local-dir:` folder."""
    settings: dict[str, Any]
    """Image preprocessing and activation of these weights; empty where the configuration has them."""


@dataclass(frozen=True)
class Replica:
    """The model on one device."""

    device: torch.device
    encode_image: Encode
    encode_text: Encode
    prepare: Callable[[PIL.Image.Image], torch.Tensor]
    tokenize: Callable[[list[str]], torch.Tensor]
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held during a forward pass, but not while threads prepare batches."""


class OpenClip:
    """Embeds images and texts. Batches go to the devices in turn.

    Device and precision are not part of `version`: bf16 changes a vector less than a JPEG round trip does, and another
    machine must not remeasure everything.
    """

    def __init__(self) -> None:
        self._devices = _devices()
        self._dtype = _dtype(self._devices)
        self._checkpoint = find_checkpoint(
            os.environ.get(CLIP_MODEL_VARIABLE) or DEFAULT_MODEL, os.environ.get(PRETRAINED) or DEFAULT_PRETRAINED
        )
        self.version = self._checkpoint.version
        self._turn = itertools.count()

    @cached_property
    def replicas(self) -> list[Replica]:
        """The model on every device, loaded when first used."""
        return [self._load(device) for device in self._devices]

    def _load(self, device: torch.device) -> Replica:
        checkpoint = self._checkpoint
        file = str(checkpoint.file) if checkpoint.file else None
        model, prepare = open_clip.create_model_from_pretrained(
            checkpoint.model, pretrained=file, device=device, **checkpoint.settings
        )
        model.eval()
        image, text = model.encode_image, model.encode_text
        if os.environ.get(COMPILE) == "1":
            image, text = torch.compile(image, dynamic=True), torch.compile(text, dynamic=True)
        shortest = open_clip.get_model_preprocess_cfg(model)["resize_mode"] == "shortest"
        transform = (lambda image: prepare(middle(image))) if shortest else prepare
        return Replica(device, image, text, transform, open_clip.get_tokenizer(checkpoint.model))

    def embed_images(self, images: Sequence[DecodedImage]) -> Vectors:
        """float32 (n, dimension), unit length."""
        return self._embed(images, lambda on, batch: (on.encode_image, torch.stack([on.prepare(i.pil) for i in batch])))

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """float32 (n, dimension), unit length. Most architectures read the first 77 tokens."""
        return self._embed(texts, lambda on, batch: (on.encode_text, on.tokenize(list(batch))))

    def _embed(self, items: Sequence[Any], prepared: Callable[[Replica, Sequence[Any]], tuple[Encode, Any]]) -> Vectors:
        """`prepared` gives the encoder of a replica and its input for some items."""
        if not items:
            return np.zeros((0, 0), np.float32)
        batches = []
        size = batch_of(CLIP_BATCH)
        for start in range(0, len(items), size):
            replica = self.replicas[next(self._turn) % len(self._devices)]
            encode, batch = prepared(replica, items[start : start + size])
            autocast = torch.autocast(replica.device.type, self._dtype, enabled=self._dtype is not torch.float32)
            with replica.lock, torch.inference_mode(), autocast:
                batches.append(_in_halves(encode, batch.to(replica.device)))
        vectors = torch.cat(batches)
        if not torch.isfinite(vectors).all():
            raise ValueError("a vector is not finite")  # its distances would be meaningless
        return vectors.numpy()


def _in_halves(encode: Encode, batch: torch.Tensor) -> torch.Tensor:
    """Unit vectors on the CPU; a batch that is too large for the device's memory is split."""
    try:
        return torch.nn.functional.normalize(encode(batch).float(), dim=-1).cpu()
    except torch.OutOfMemoryError:
        if len(batch) == 1:
            raise
    torch.cuda.empty_cache()
    return torch.cat([_in_halves(encode, half) for half in batch.chunk(2)])


def middle(image: PIL.Image.Image) -> PIL.Image.Image:
    """The part of a very long image that a centre crop uses: resized whole, 1 x 20,000 pixels would take 3 GB."""
    width, height = image.size
    longest = SLENDER_RATIO * min(width, height)
    if max(width, height) <= longest:
        return image
    left, top = max(0, (width - longest) // 2), max(0, (height - longest) // 2)
    return image.crop((left, top, min(width, left + longest), min(height, top + longest)))


def find_checkpoint(model: str, pretrained: str) -> Checkpoint:
    """The checkpoint of both names. Raises BadInput for unknown names, MissingProvider for missing weights."""
    folder = next((name for name in (model, pretrained) if name.startswith(LOCAL_DIR)), None)
    if folder is not None:
        return _in_folder(folder)
    if model not in open_clip.list_models():
        raise BadInput(f"{CLIP_MODEL_VARIABLE}: unknown model {known_values(model, open_clip.list_models())}")
    name = f"open_clip-{open_clip.__version__}-{model}"
    tag = open_clip.get_pretrained_cfg(model, pretrained)
    if tag:
        repository, _, file_name = tag["hf_hub"].rpartition("/")
        usual = [HF_SAFE_WEIGHTS_NAME, HF_WEIGHTS_NAME]  # when the address `org/name/file` has no file name
        names = [file_name.replace(".bin", ".safetensors"), file_name] if file_name else usual
        file = hub_file(repository, names)
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
    """Settings that open_clip takes from a tag, and the activation, of which it only warns when the tag's differs."""
    preparation = {f"image_{key}": tag[key] for key in ("mean", "std", "interpolation", "resize_mode")}
    return preparation | {"force_quick_gelu": tag.get("quick_gelu", False)}


def _devices() -> list[torch.device]:
    """The devices of CURATE_CLIP_DEVICES, else every GPU, else the CPU. Raises BadInput for one that is not there."""
    present = torch_devices()
    named = [name.strip() for name in os.environ.get(DEVICES, "").split(",") if name.strip()]
    for name in named:
        if name not in (*present, "cpu"):
            raise BadInput(f"{DEVICES}: no such device {known_values(name, [*present, 'cpu'])}")
    return [torch.device(name) for name in named or present]


def _dtype(devices: Sequence[torch.device]) -> torch.dtype:
    on_gpu = any(device.type == "cuda" for device in devices)
    named = os.environ.get(CLIP_PRECISION_VARIABLE) or ("bf16" if on_gpu else "fp32")
    if named not in TYPES:
        raise BadInput(f"{CLIP_PRECISION_VARIABLE}: unknown precision {known_values(named, TYPES)}")
    return TYPES[named]
