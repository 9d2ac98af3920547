"""OpenCLIP from JPEG to vector on a GPU, against open_clip with a DataLoader, with the two ceilings beside it.

Time is elapsed time: a GPU's work is no CPU second, and neither are those of a DataLoader's processes.
"""

import io
import os
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import open_clip
import PIL.Image
import torch

from tasks.pixels.pictures import decode_stored
from tasks.providers.production.embedding import OpenClip

COPIES, ROUNDS, AT_ONCE = 64, 3, 64


def on_device(files: Sequence[Path], device: str = "cuda:0", copies: int = COPIES) -> list[dict[str, Any]]:
    """One row, in seconds: `decode_s` and `forward_s` are the ceilings, `of_ceiling` our share of the lower one."""
    if device != "cpu" and not torch.cuda.is_available():
        print("embedding on a GPU is skipped: torch finds none here")
        return []
    os.environ |= {"CURATE_CLIP_DEVICES": device, "CURATE_CLIP_PRECISION": "bf16"}
    embedder, cores = OpenClip(), len(os.sched_getaffinity(0))
    contents = [file.read_bytes() for file in files] * copies
    batches = [contents[start : start + AT_ONCE] for start in range(0, len(contents), AT_ONCE)]
    loop = _data_loader(contents, cores, device)

    def decoded(batch: Sequence[bytes]) -> list[Any]:
        return [decode_stored(content, "jpeg", "") for content in batch]

    def every(work: Callable[[Sequence[bytes]], object]) -> None:
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(work, batches))

    forward = _forward(embedder, len(batches))
    ways: dict[str, Callable[[], object]] = {
        "ours_s": lambda: every(lambda batch: embedder.embed_images(decoded(batch))),
        "peer_s": loop,
        "decode_s": lambda: every(decoded),
        "forward_s": forward,
    }
    seconds = {name: round(_median_seconds(work, device), 4) for name, work in ways.items()}
    row = {
        "bench": f"embedding: JPEG to vector, {device} bf16",
        "n": len(contents),
        "peer": "open_clip and DataLoader, fp32",
        "ratio": round(seconds["peer_s"] / seconds["ours_s"], 2),
        "of_ceiling": round(max(seconds["decode_s"], seconds["forward_s"]) / seconds["ours_s"], 3),
        "device": "CPU" if device == "cpu" else torch.cuda.get_device_name(),
        **seconds,
    }
    print(row, flush=True)
    return [row]


def _median_seconds(work: Callable[[], object], device: str) -> float:
    work()
    seconds = []
    for _ in range(ROUNDS):
        started = perf_counter()
        work()
        if device != "cpu":
            torch.cuda.synchronize()
        seconds.append(perf_counter() - started)
    return statistics.median(seconds)


def _forward(embedder: OpenClip, batches: int) -> Callable[[], object]:
    """The model alone, on a batch that is there already."""
    replica = embedder.replicas[0]
    batch = torch.randn(AT_ONCE, 3, 224, 224, device=replica.device)

    def forward() -> None:
        with torch.inference_mode(), torch.autocast(replica.device.type, torch.bfloat16):
            for _ in range(batches):
                replica.encode_image(batch)

    return forward


class _Files(torch.utils.data.Dataset):
    def __init__(self, contents: Sequence[bytes], prepare: Any) -> None:
        self.contents, self.prepare = contents, prepare

    def __len__(self) -> int:
        return len(self.contents)

    def __getitem__(self, place: int) -> torch.Tensor:
        return self.prepare(PIL.Image.open(io.BytesIO(self.contents[place])))


def _data_loader(contents: Sequence[bytes], cores: int, device: str) -> Callable[[], object]:
    name, pretrained = os.environ["CURATE_CLIP_MODEL"], os.environ["CURATE_CLIP_PRETRAINED"]
    model, prepare = open_clip.create_model_from_pretrained(name, pretrained=pretrained, device=device)
    model.eval()

    def loop() -> None:
        on_gpu = device != "cpu"
        loader = torch.utils.data.DataLoader(
            _Files(contents, prepare), AT_ONCE, num_workers=cores if on_gpu else 0, pin_memory=on_gpu
        )
        with torch.inference_mode():
            for batch in loader:
                model.encode_image(batch.to(device, non_blocking=True), normalize=True).cpu()

    return loop
