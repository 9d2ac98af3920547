"""OpenCLIP ViT-B-32 from picture files and prompts to vectors, against the plain open_clip loop; CPU and GPU.

The weights are drawn (seed 0), because the published ones are a download. They show the time, which is the same for any
weights; the neighbours that rounding costs they do not show (`benchmarks.embedding_trained`). With real weights:
CURATE_CLIP_PRETRAINED=laion2b_s34b_b79k python -m benchmarks.embedding
"""

import os
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import PIL.Image
import torch

from benchmarks.embedding_device import on_device
from benchmarks.pictures import picture_files
from benchmarks.timing import compare
from tasks.pixels.pictures import decode_stored
from tasks.providers.production.embedding import OpenClip

MODEL = "ViT-B-32"
NEIGHBOURS = 10
AT_ONCE = 16
"""Pictures that are decoded before they are embedded, as in a run."""
FLOOR = {"gflop_a_picture": 8.8, "gflop_a_token": 0.076, "weights_mb_fp32": 605, "pixels_mb_a_picture": 2.36}
"""What the floor is made of: multiplications and additions, and bytes; a batch reads the weights once."""
WORDS = (5, 9, 44, 80, 80)
"""Words of a prompt: the 7, 11, 49, 77 and 77 tokens that are the 10th to 90th percentiles of sample arena logs."""


def run() -> list[dict[str, Any]]:
    """Rows of pictures, of prompts and of both, for each precision; `neighbour_overlap` is of the ten nearest."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"CURATE_CLIP_MODEL": MODEL, "CURATE_CLIP_DEVICES": "cpu"}
        pretrained = os.environ.get("CURATE_CLIP_PRETRAINED") or drawn_weights(Path(folder))
        files = picture_files(Path(folder))
        rows = [row for precision in ("fp32", "int16") for row in on_cpu(pretrained, precision, files)]
        os.environ["CURATE_CLIP_PRETRAINED"] = pretrained
        return rows + on_device(files)


def drawn_weights(folder: Path) -> str:
    """Checkpoint file of weights as a model begins with."""
    torch.manual_seed(0)
    torch.save(open_clip.create_model(MODEL).state_dict(), folder / "drawn.pt")
    return str(folder / "drawn.pt")


def drawn_prompts(n: int) -> list[str]:
    """Questions of drawn words, a token each, as long as those of arenas."""
    chance = random.Random(0)
    words = ("what", "is", "in", "this", "picture", "and", "how", "could", "one", "tell", "where", "it", "was", "taken")
    return [" ".join(chance.choices(words, k=WORDS[number % len(WORDS)])) for number in range(n)]


def _clip(pretrained: str, precision: str) -> OpenClip:
    os.environ |= {"CURATE_CLIP_PRETRAINED": pretrained, "CURATE_CLIP_PRECISION": precision}
    return OpenClip()


def on_cpu(pretrained: str, precision: str, files: Sequence[Path]) -> list[dict[str, Any]]:
    """Pictures, as many prompts, and one of each as a conversation of an arena has them."""
    ours, plain, prompts = _clip(pretrained, precision), Plain(pretrained, "cpu"), drawn_prompts(len(files))
    halves = [
        _half("picture", precision, (lambda: _pictures(ours, files)), (lambda: plain.pictures(files)), FLOOR),
        _half("prompt", precision, (lambda: ours.embed_texts(prompts)), (lambda: plain.texts(prompts)), {}),
    ]
    both = {key: round(sum(half[key] for half in halves), 4) for key in ("ours_s", "peer_s")}
    row = halves[0] | {"bench": f"embedding: picture and prompt, CPU {precision}"} | both
    row["ratio"] = round(both["peer_s"] / both["ours_s"], 2)
    for name in FLOOR.keys() | {"wall_ratio"}:
        row.pop(name)
    print(row, flush=True)
    return [*halves, row | {key: min(half[key] for half in halves) for key in ("neighbour_overlap", "cosine_min")}]


def _half(
    what: str, precision: str, ours: Callable[[], np.ndarray], theirs: Callable[[], np.ndarray], floor: dict[str, float]
) -> dict[str, Any]:
    mine, reference = ours(), theirs()
    return compare(
        f"embedding: {what}, CPU {precision}",
        len(mine),
        ours,
        "open_clip fp32, one by one",
        theirs,
        neighbour_overlap=overlap(mine, reference),
        cosine_min=round(float((mine * reference).sum(axis=1).min()), 6),
        **floor,
    )


def _pictures(embedder: OpenClip, files: Sequence[Path]) -> np.ndarray:
    parts = (files[start : start + AT_ONCE] for start in range(0, len(files), AT_ONCE))
    return np.concatenate(
        [embedder.embed_images([decode_stored(file.read_bytes(), "jpeg", "") for file in part]) for part in parts]
    )


class Plain:
    """What open_clip's own page shows."""

    def __init__(self, pretrained: str, device: str) -> None:
        self.model, self.prepare = open_clip.create_model_from_pretrained(MODEL, pretrained=pretrained, device=device)
        self.model.eval()
        self.tokenize = open_clip.get_tokenizer(MODEL)

    def pictures(self, files: Sequence[Path]) -> np.ndarray:
        """float32 (files, dimension), unit length."""
        with torch.inference_mode():
            tiles = (self.prepare(PIL.Image.open(file))[None] for file in files)
            return torch.cat([self.model.encode_image(tile, normalize=True) for tile in tiles]).numpy()

    def texts(self, prompts: Sequence[str]) -> np.ndarray:
        """float32 (prompts, dimension), unit length."""
        with torch.inference_mode():
            tokens = (self.tokenize([prompt]) for prompt in prompts)
            return torch.cat([self.model.encode_text(each, normalize=True) for each in tokens]).numpy()


def overlap(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Share of the ten nearest others that both agree on, mean over all vectors."""
    nearest = [np.argsort(-(vectors @ vectors.T), axis=1)[:, 1 : NEIGHBOURS + 1] for vectors in (ours, theirs)]
    return round(float(np.mean([len(set(a) & set(b)) / NEIGHBOURS for a, b in zip(*nearest, strict=True)])), 4)


if __name__ == "__main__":
    run()
