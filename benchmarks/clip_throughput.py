"""CLIP vectors of pictures on the card, or the CPU where there is none, beside a plain open_clip loop.

    python -m benchmarks.clip_throughput [--pictures 10000] [--model ViT-L-14] [--processes 1,2,4]

`decode_s` reads, decodes and resizes all pictures on every core, and `forward_s` computes prepared batches alone: no
way to measure takes less than the larger of them. Weights are random, which cost as much as trained ones. Seconds are
elapsed, from loaded models to stored vectors; `ratio` is against the plain loop, `of_bound` against that larger one.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import open_clip
import PIL.Image
import safetensors.torch
import torch

from benchmarks.scale_out import NAMES, photograph
from benchmarks.timing import write
from tasks.images.decode import DecodedImage, decode_stored
from tasks.providers import Providers
from tasks.providers.production.local.openclip import CLIP_MODEL_VARIABLE, PRETRAINED
from tasks.runtime.parallel import batch_of, map_in_processes, map_ordered, on_card
from tasks.signals.registry import signal_of
from tasks.signals.run import ITEMS_A_CALL, measure_items
from tasks.storage.tables import Store

PICTURES, ARCHITECTURE, FILES = 10_000, "ViT-L-14", 1_000
"""Pictures are read from so many different files in turn."""
PROCESSES = (1, 2, 4)
LOOP = 500
"""Pictures of the plain loop, which takes one at a time as on open_clip's page; its seconds are multiplied."""
CORES = os.cpu_count() or 1


def run(
    pictures: int = PICTURES, model: str = ARCHITECTURE, processes: Sequence[int] = PROCESSES
) -> list[dict[str, Any]]:
    """One row for each number of processes that share the device."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        weights = folder / "weights.safetensors"
        safetensors.torch.save_file(open_clip.create_model(model).state_dict(), weights)
        os.environ |= {CLIP_MODEL_VARIABLE: model, PRETRAINED: str(weights)}
        (folder / "pictures").mkdir()
        files = min(FILES, pictures)
        for number in range(files):
            shown = photograph(NAMES[number % len(NAMES)], 7 * number)
            shown.save(folder / "pictures" / f"{number}.jpg", quality=88)
        loop, decode, forward = _peers(folder, pictures, model, weights)
        seconds = {count: _ours(folder, pictures, count) for count in processes}
    device = torch.cuda.get_device_name() if on_card() else "CPU"
    return [
        {
            "bench": f"clip throughput: {model} on {device}, {count} process(es)", "n": pictures,
            "ours_s": round(ours, 1),
            "peer": "a plain open_clip loop, one picture at a time", "peer_s": round(loop, 1),
            "ratio": round(loop / ours, 2), "pictures_s": round(pictures / ours), "cores": CORES,
            "decode_s": round(decode, 1), "forward_s": round(forward, 1),
            "of_bound": round(max(decode, forward) / ours, 3),
        }
        for count, ours in seconds.items()
    ]  # fmt: skip


@cache
def _files(folder: Path) -> list[Path]:
    return sorted((folder / "pictures").iterdir())


def _load(folder: Path, ids: Sequence[str]) -> list[DecodedImage]:
    files = _files(folder)
    return [decode_stored(files[int(each) % len(files)].read_bytes(), "jpeg", each) for each in ids]


def _peers(folder: Path, pictures: int, model: str, weights: Path) -> tuple[float, float, float]:
    """Seconds of the plain loop, of decoding alone and of the model alone, for all pictures."""
    device = torch.device("cuda" if on_card() else "cpu")
    network, prepare = open_clip.create_model_from_pretrained(model, pretrained=str(weights), device=device)
    size, few = batch_of(64), min(LOOP, pictures)
    cast = torch.autocast(device.type, torch.bfloat16, enabled=on_card())

    def one(number: int) -> Any:
        return prepare(_load(folder, [str(number)])[0].pil)

    with torch.inference_mode(), cast:
        network.eval().encode_image(one(0)[None].to(device))
        began = time.perf_counter()
        for number in range(few):
            picture = prepare(PIL.Image.open(_files(folder)[number % len(_files(folder))]))[None].to(device)
            network.encode_image(picture, normalize=True).float().cpu()
        loop = (time.perf_counter() - began) * pictures / few
        began = time.perf_counter()
        prepared = list(map_ordered(one, range(min(pictures, 2 * FILES)), CORES))
        decode = (time.perf_counter() - began) * pictures / len(prepared)
        batch = torch.stack(prepared[:size])
        network.encode_image(batch.to(device)).cpu()
        began = time.perf_counter()
        rounds = max(1, min(pictures // size, 20))
        for _ in range(rounds):
            network.encode_image(batch.to(device)).cpu()
        forward = (time.perf_counter() - began) * pictures / (rounds * len(batch))
    return loop, decode, forward


def _ours(folder: Path, pictures: int, processes: int) -> float:
    """Seconds until all vectors are stored, once every process has loaded the model."""
    shares = [(folder, processes, [str(n) for n in range(first, pictures, processes)]) for first in range(processes)]
    spans = list(map_in_processes(_measured, shares, processes))
    return max(ended for _, ended in spans) - min(began for began, _ in spans)


def _measured(share: tuple[Path, int, list[str]]) -> tuple[float, float]:
    """When this process began and ended to measure its share, after all have loaded the model."""
    folder, processes, ids = share
    signal = signal_of("image_embedding", Providers({"image_embedding": "open_clip"}))
    signal.values(_load(folder, ids[: batch_of(ITEMS_A_CALL)]))
    (folder / f"ready-{processes}-{os.getpid()}").touch()
    while len(list(folder.glob(f"ready-{processes}-*"))) < processes:
        time.sleep(0.01)
    began = time.time()
    store = Store.open(str(folder / f"store-{processes}-{os.getpid()}"))
    threads = max(1, CORES // processes)
    done = measure_items(
        store, signal, ids, lambda some: _load(folder, some), workers=threads, now=datetime.now(UTC), part_items=256
    )
    assert done.calls["image_embedding"] == len(ids) and not done.failures
    return began, time.time()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="CLIP vectors of pictures beside a plain loop.")
    parser.add_argument("--pictures", type=int, default=PICTURES)
    parser.add_argument("--model", default=ARCHITECTURE)
    parser.add_argument("--processes", default=",".join(map(str, PROCESSES)))
    given = parser.parse_args()
    rows = run(given.pictures, given.model, [int(each) for each in given.processes.split(",")])
    for row in rows:
        print(row, flush=True)
    write(rows)
