"""OpenCLIP ViT-B-32 on a CPU, from image files and prompts to vectors, against the example on open_clip's page.

Weights are random (seed 0), because the published ones are a download and the time is the same for any weights. With
published weights: CURATE_CLIP_PRETRAINED=laion2b_s34b_b79k python -m benchmarks.embedding
"""

import os
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import PIL.Image
import torch

from benchmarks.images import image_files
from benchmarks.timing import compare
from tasks.images.decode import decode_stored
from tasks.providers.production.local.openclip import OpenClip

MODEL = "ViT-B-32"
WORDS = (5, 9, 44, 80, 80)
"""Words per prompt; as tokens 7, 11, 49, 77 and 77, the 10th to 90th percentiles of sample arena logs."""


def run() -> list[dict[str, Any]]:
    """One row for images and one for prompts."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        pretrained = os.environ.get("CURATE_CLIP_PRETRAINED") or drawn_weights(Path(folder))
        os.environ |= {"CURATE_CLIP_MODEL": MODEL, "CURATE_CLIP_DEVICES": "cpu", "CURATE_CLIP_PRETRAINED": pretrained}
        files, ours, plain = image_files(Path(folder)), OpenClip(), Plain(pretrained)
        prompts = drawn_prompts(len(files))
        kinds = {
            "image": (lambda: images(ours, files), lambda: plain.images(files)),
            "prompt": (lambda: ours.embed_texts(prompts), lambda: plain.texts(prompts)),
        }
        return [
            compare(
                f"embedding: {kind}, CPU fp32", len(files), mine, "open_clip fp32, one by one", theirs,
                cosine_min=round(float((mine() * theirs()).sum(axis=1).min()), 6),
            )
            for kind, (mine, theirs) in kinds.items()
        ]  # fmt: skip


def drawn_weights(folder: Path) -> str:
    """Path of a checkpoint with randomly initialised weights."""
    torch.manual_seed(0)
    torch.save(open_clip.create_model(MODEL).state_dict(), folder / "drawn.pt")
    return str(folder / "drawn.pt")


def drawn_prompts(n: int) -> list[str]:
    """Prompts of random one-token words, as long as those of arenas."""
    chance = random.Random(0)
    words = ("what", "is", "in", "this", "image", "and", "how", "could", "one", "tell", "where", "it", "was", "taken")
    return [" ".join(chance.choices(words, k=WORDS[number % len(WORDS)])) for number in range(n)]


def images(embedder: OpenClip, files: Sequence[Path]) -> np.ndarray:
    """float32 (files, dimension), with our decoder."""
    return embedder.embed_images([decode_stored(file.read_bytes(), "jpeg", "") for file in files])


class Plain:
    """The example on open_clip's page."""

    def __init__(self, pretrained: str) -> None:
        self.model, self.prepare = open_clip.create_model_from_pretrained(MODEL, pretrained=pretrained)
        self.model.eval()
        self.tokenize = open_clip.get_tokenizer(MODEL)

    def images(self, files: Sequence[Path]) -> np.ndarray:
        """float32 (files, dimension), unit length."""
        with torch.inference_mode():
            prepared = (self.prepare(PIL.Image.open(file))[None] for file in files)
            return torch.cat([self.model.encode_image(each, normalize=True) for each in prepared]).numpy()

    def texts(self, prompts: Sequence[str]) -> np.ndarray:
        """float32 (prompts, dimension), unit length."""
        with torch.inference_mode():
            tokens = (self.tokenize([prompt]) for prompt in prompts)
            return torch.cat([self.model.encode_text(each, normalize=True) for each in tokens]).numpy()


if __name__ == "__main__":
    run()
