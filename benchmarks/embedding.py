"""OpenCLIP ViT-B-32 from picture files and prompts to vectors, against the plain open_clip loop; CPU and GPU.

The weights are drawn (seed 0), because the published ones are a download. Their vectors lie closer together than those
of trained weights, so that rounding swaps more neighbours. What trained weights have and drawn ones lack are channels
tens of times as large as the others: a second checkpoint has some planted. With real weights:
CURATE_CLIP_PRETRAINED=laion2b_s34b_b79k python -m benchmarks.embedding
"""

import os
import random
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import PIL.Image
import torch

from benchmarks.embedding_device import on_device
from benchmarks.pictures import picture_files
from benchmarks.timing import compare
from tasks.pictures import decode_stored
from tasks.providers.production.embedding import OpenClip

MODEL = "ViT-B-32"
NEIGHBOURS = 10
AT_ONCE = 16
"""Pictures that are decoded before they are embedded, as in a run."""
OUTLIERS, GAIN = 4, 30.0
"""Channels of each kind that are planted, and how many times as large they are as the others."""
FLOOR = {"gflop_a_picture": 8.8, "gflop_a_token": 0.076, "weights_mb_fp32": 605, "pixels_mb_a_picture": 2.36}
"""What the floor is made of: multiplications and additions, and bytes; a batch reads the weights once."""
WORDS = (5, 9, 44, 80, 80)
"""Words of a prompt: the 7, 11, 49, 77 and 77 tokens that are the 10th to 90th percentiles of sample arena logs."""


def run() -> list[dict[str, Any]]:
    """One row for each precision; `neighbour_overlap` is of the ten nearest among all pictures, and among all texts."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        drawn, outlying = drawn_weights(Path(folder))
        os.environ |= {"CURATE_CLIP_MODEL": MODEL, "CURATE_CLIP_DEVICES": "cpu"}
        files = picture_files(Path(folder))
        prompts = drawn_prompts(len(files))
        pretrained = os.environ.get("CURATE_CLIP_PRETRAINED", drawn)
        rows = [_on_cpu(pretrained, precision, files, prompts) for precision in ("fp32", "int8")]
        rows[1]["overlap_with_outliers"] = _agreement(outlying, "int8", files, prompts)
        print(rows[1], flush=True)
        os.environ["CURATE_CLIP_PRETRAINED"] = pretrained
        return rows + on_device(files)


def drawn_weights(folder: Path) -> tuple[str, str]:
    """Checkpoint files of weights as a model begins with, and of the same with outliers planted."""
    torch.manual_seed(0)
    model = open_clip.create_model(MODEL)
    torch.save(model.state_dict(), folder / "drawn.pt")
    with torch.no_grad():
        for tower in (model.visual.transformer, model.transformer):
            for block in tower.resblocks:
                _plant(block, tower.width)
    torch.save(model.state_dict(), folder / "outlying.pt")
    return str(folder / "drawn.pt"), str(folder / "outlying.pt")


def _plant(block: Any, width: int) -> None:
    """Make some channels large where they leave a layer and small where they enter the next: the same function."""
    channels, inner = torch.randperm(width)[:OUTLIERS], torch.randperm(4 * width)[:OUTLIERS]
    attention, values = block.attn, 2 * width + channels
    for norm, weight in ((block.ln_1, attention.in_proj_weight), (block.ln_2, block.mlp.c_fc.weight)):
        norm.weight[channels] *= GAIN
        weight[:, channels] /= GAIN
    attention.in_proj_weight[values] *= GAIN
    attention.out_proj.weight[:, channels] /= GAIN
    block.mlp.c_fc.weight[inner] *= GAIN
    block.mlp.c_proj.weight[:, inner] /= GAIN


def drawn_prompts(n: int) -> list[str]:
    """Questions of drawn words, as long as those of arenas."""
    chance, words = random.Random(0), (__doc__ or "").split()
    return [" ".join(chance.choices(words, k=WORDS[number % len(WORDS)])) for number in range(n)]


def _clip(pretrained: str, precision: str) -> OpenClip:
    os.environ |= {"CURATE_CLIP_PRETRAINED": pretrained, "CURATE_CLIP_PRECISION": precision}
    return OpenClip()


def _vectors(embedder: OpenClip, files: Sequence[Path], prompts: Sequence[str]) -> np.ndarray:
    pictures: Iterable[Any] = (
        embedder.embed_images([decode_stored(file.read_bytes(), "jpeg", "") for file in files[start : start + AT_ONCE]])
        for start in range(0, len(files), AT_ONCE)
    )
    return np.concatenate([*pictures, embedder.embed_texts(prompts)])


def _on_cpu(pretrained: str, precision: str, files: Sequence[Path], prompts: Sequence[str]) -> dict[str, Any]:
    embedder, plain = _clip(pretrained, precision), Plain(pretrained, "cpu")
    mine, reference = _vectors(embedder, files, prompts), plain.vectors(files, prompts)
    return compare(
        f"embedding: picture and prompt, CPU {precision}",
        len(files),
        lambda: _vectors(embedder, files, prompts),
        "open_clip fp32, one by one",
        lambda: plain.vectors(files, prompts),
        neighbour_overlap=_overlap(mine, reference),
        cosine_min=round(float((mine * reference).sum(axis=1).min()), 5),
        **FLOOR,
    )


def _agreement(pretrained: str, precision: str, files: Sequence[Path], prompts: Sequence[str]) -> float:
    reference = Plain(pretrained, "cpu").vectors(files, prompts)
    return _overlap(_vectors(_clip(pretrained, precision), files, prompts), reference)


class Plain:
    """What open_clip's own page shows."""

    def __init__(self, pretrained: str, device: str) -> None:
        self.model, self.prepare = open_clip.create_model_from_pretrained(MODEL, pretrained=pretrained, device=device)
        self.model.eval()
        self.tokenize = open_clip.get_tokenizer(MODEL)

    def vectors(self, files: Sequence[Path], prompts: Sequence[str]) -> np.ndarray:
        """float32 (files + prompts, dimension), unit length."""
        with torch.inference_mode():
            pictures = [
                self.model.encode_image(self.prepare(PIL.Image.open(file))[None], normalize=True) for file in files
            ]
            texts = [self.model.encode_text(self.tokenize([prompt]), normalize=True) for prompt in prompts]
        return torch.cat([*pictures, *texts]).numpy()


def _overlap(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Share of the ten nearest others that both agree on, mean over all vectors of the same kind."""
    half = len(ours) // 2
    shares = []
    for some in (slice(0, half), slice(half, None)):
        nearest = [np.argsort(-(v[some] @ v[some].T), axis=1)[:, 1 : NEIGHBOURS + 1] for v in (ours, theirs)]
        shares += [len(set(a) & set(b)) / NEIGHBOURS for a, b in zip(*nearest, strict=True)]
    return round(float(np.mean(shares)), 4)


if __name__ == "__main__":
    run()
