"""OpenCLIP ViT-B-32 from picture files and prompts to vectors, against the plain open_clip loop; CPU and GPU.

The weights are drawn (seed 0), because the published ones are a download: speed is the same, and the overlap of
neighbours says how far the rounding moves vectors, not how it treats the outliers of trained activations. With real
weights: CURATE_CLIP_PRETRAINED=laion2b_s34b_b79k python -m benchmarks.embedding
"""

import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import PIL.Image
import torch

from benchmarks.pictures import picture_files
from benchmarks.timing import compare
from tasks.pictures import decode_stored
from tasks.providers.production.embedding import BATCH, OpenClip

MODEL = "ViT-B-32"
GPU_COPIES = 64
NEIGHBOURS = 10
FLOOR = {"gflop_a_picture": 8.8, "weights_mb_fp32": 605, "pixels_mb_a_picture": 2.36, "tile_mb_fp32": 0.6}
"""8.8 GFLOP a picture and 5.9 a text of 77 tokens; a batch reads the weights once."""


def run() -> list[dict[str, Any]]:
    """One row for each device and precision; `neighbour_overlap` is of the ten nearest among all pictures and texts."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        pretrained = os.environ.get("CURATE_CLIP_PRETRAINED") or _drawn(Path(folder))
        os.environ |= {"CURATE_CLIP_MODEL": MODEL, "CURATE_CLIP_PRETRAINED": pretrained}
        files = picture_files(Path(folder))
        prompts = [
            f"What is in picture {number}, and what colour is the {file.stem}?" for number, file in enumerate(files)
        ]
        rows = [_on_cpu(precision, files, prompts) for precision in ("fp32", "int8")]
        return rows + _on_gpu(files)


def _drawn(folder: Path) -> str:
    torch.manual_seed(0)
    torch.save(open_clip.create_model(MODEL).state_dict(), folder / "drawn.pt")
    return str(folder / "drawn.pt")


def _clip(precision: str, devices: str) -> OpenClip:
    os.environ |= {"CURATE_CLIP_PRECISION": precision, "CURATE_CLIP_DEVICES": devices}
    return OpenClip()


def _on_cpu(precision: str, files: Sequence[Path], prompts: Sequence[str]) -> dict[str, Any]:
    embedder, plain = _clip(precision, "cpu"), _Plain("cpu")

    def ours() -> np.ndarray:
        pictures = [decode_stored(file.read_bytes(), "jpeg", "") for file in files]
        return np.concatenate([embedder.embed_images(pictures), embedder.embed_texts(prompts)])

    def theirs() -> np.ndarray:
        return np.concatenate([plain.image(file) for file in files] + [plain.text(prompt) for prompt in prompts])

    mine, reference = ours(), theirs()
    return compare(
        f"embedding: picture and prompt, CPU {precision}",
        len(files),
        ours,
        "open_clip fp32, one by one",
        theirs,
        neighbour_overlap=round(_overlap(mine, reference), 4),
        cosine_min=round(float((mine * reference).sum(axis=1).min()), 5),
        **FLOOR,
    )


def _on_gpu(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Wall time counts: `decode_s` and `forward_s` are the two ceilings, `of_ceiling` our share of the lower one."""
    if not torch.cuda.is_available():
        print("embedding on a GPU is skipped: torch finds none here")
        return []
    from time import perf_counter

    contents = [file.read_bytes() for file in files] * GPU_COPIES
    embedder, cores = _clip("bf16", ""), len(os.sched_getaffinity(0))
    batches = [contents[start : start + BATCH] for start in range(0, len(contents), BATCH)]

    def decode(batch: Sequence[bytes]) -> list[Any]:
        return [decode_stored(content, "jpeg", "") for content in batch]

    def every(work: Any) -> float:
        started = perf_counter()
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(work, batches))
        torch.cuda.synchronize()
        return perf_counter() - started

    def whole() -> float:
        return every(lambda batch: embedder.embed_images(decode(batch)))

    whole()
    decode_s, forward_s = every(decode), _forward_seconds(embedder, len(batches))
    ours_s = whole()
    row = compare(
        "embedding: JPEG to vector, GPU bf16",
        len(contents),
        whole,
        "open_clip and DataLoader, fp32",
        lambda: _data_loader(contents, cores),
        decode_s=round(decode_s, 3),
        forward_s=round(forward_s, 3),
        of_ceiling=round(max(decode_s, forward_s) / ours_s, 3),
        device=torch.cuda.get_device_name(),
        **FLOOR,
    )
    return [row]


def _forward_seconds(embedder: OpenClip, batches: int) -> float:
    """The model alone, on a batch that is there already."""
    from time import perf_counter

    replica = embedder._next()
    batch = torch.randn(BATCH, 3, 224, 224, device=replica.device)
    with torch.inference_mode(), torch.autocast("cuda", torch.bfloat16):
        replica.encode_image(batch)
        torch.cuda.synchronize()
        started = perf_counter()
        for _ in range(batches):
            replica.encode_image(batch)
        torch.cuda.synchronize()
    return perf_counter() - started


class _Plain:
    """What open_clip's own page shows."""

    def __init__(self, device: str) -> None:
        pretrained = os.environ["CURATE_CLIP_PRETRAINED"]
        self.model, self.prepare = open_clip.create_model_from_pretrained(MODEL, pretrained=pretrained, device=device)
        self.model.eval()
        self.tokenize = open_clip.get_tokenizer(MODEL)

    def image(self, file: Path) -> np.ndarray:
        with torch.inference_mode():
            return self.model.encode_image(self.prepare(PIL.Image.open(file))[None], normalize=True).numpy()

    def text(self, prompt: str) -> np.ndarray:
        with torch.inference_mode():
            return self.model.encode_text(self.tokenize([prompt]), normalize=True).numpy()


class _Files(torch.utils.data.Dataset):
    def __init__(self, contents: Sequence[bytes], prepare: Any) -> None:
        self.contents, self.prepare = contents, prepare

    def __len__(self) -> int:
        return len(self.contents)

    def __getitem__(self, place: int) -> torch.Tensor:
        import io

        return self.prepare(PIL.Image.open(io.BytesIO(self.contents[place])))


def _data_loader(contents: Sequence[bytes], cores: int) -> None:
    plain = _Plain("cuda")
    loader = torch.utils.data.DataLoader(_Files(contents, plain.prepare), BATCH, num_workers=cores, pin_memory=True)
    with torch.inference_mode():
        for batch in loader:
            plain.model.encode_image(batch.cuda(non_blocking=True), normalize=True).cpu()


def _overlap(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Share of the ten nearest others that both agree on, mean over all vectors of the same kind."""
    half = len(ours) // 2
    shares = []
    for some in (slice(0, half), slice(half, None)):
        nearest = [np.argsort(-(v[some] @ v[some].T), axis=1)[:, 1 : NEIGHBOURS + 1] for v in (ours, theirs)]
        shares += [len(set(a) & set(b)) / NEIGHBOURS for a, b in zip(*nearest, strict=True)]
    return float(np.mean(shares))


if __name__ == "__main__":
    run()
