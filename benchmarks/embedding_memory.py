"""Peak memory of embedding stored images with OpenCLIP: it depends on workers and image size, not on their number.

The model is small, so that the memory of the images shows; the weights of a larger model are added to it.
"""

import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import open_clip
import polars as pl
import torch

from benchmarks.images import image_files
from schemas.tables import TABLES
from tasks.providers import Providers
from tasks.signals.registry import signal_of
from tasks.signals.run import IMAGES_A_PART, ImageItems, measure_items
from tasks.storage.queries.images import StoredImages
from tasks.storage.tables import Store, frame_schema

SETTINGS = ((256, 1), (1_024, 1), (1_024, 3))
"""Number of images (1024 x 768) and workers."""
MODEL = "curation-memory"
CONFIG = {
    "embed_dim": 64,
    "vision_cfg": {"image_size": 224, "layers": 1, "width": 64, "head_width": 32, "patch_size": 32},
    "text_cfg": {"width": 64, "heads": 1, "layers": 1},
}
_PART = 512


def run() -> list[dict[str, Any]]:
    """One row per setting."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / f"{MODEL}.json").write_text(json.dumps(CONFIG))
        open_clip.add_model_config(folder)
        torch.save(open_clip.create_model(MODEL).state_dict(), folder / "drawn.pt")
        files = [file.read_bytes() for file in image_files(folder)]
        return [_measured(folder, files, *setting) for setting in SETTINGS]


def _measured(folder: Path, files: list[bytes], images: int, workers: int) -> dict[str, Any]:
    store = folder / f"{images}-{workers}"
    for start in range(0, images, _PART):
        Store.open(str(store)).append("images", _rows(files, range(start, min(start + _PART, images))))
    code = f"from benchmarks.embedding_memory import embed; embed({str(folder)!r}, {str(store)!r}, {workers})"
    named = {"MODEL": MODEL, "PRETRAINED": str(folder / "drawn.pt"), "DEVICES": "cpu"}
    chosen = os.environ | {f"CURATE_CLIP_{name}": value for name, value in named.items()}
    done = subprocess.run([sys.executable, "-c", code], env=chosen, check=True, capture_output=True, text=True)
    row = {"bench": "embedding: peak memory", "n": images, "workers": workers}
    row |= json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(row), flush=True)
    return row


def _rows(files: list[bytes], numbers: range) -> pl.DataFrame:
    same: dict[str, Any] = {"format": "jpeg", "width": 1024, "height": 768}
    schema = frame_schema(TABLES["images"].row)
    columns = {
        name: [same.get(name, [] if isinstance(kind, pl.List) else None)] * len(numbers)
        for name, kind in schema.items()
    }
    columns["image_id"] = [f"{number:032x}" for number in numbers]
    columns["bytes"] = [files[number % len(files)] for number in numbers]
    return pl.DataFrame(columns, schema=schema)


def embed(folder: str, store: str, workers: int) -> None:
    """Measure the signal as `curate measure` does; prints memory before it and its peak, in MB."""
    open_clip.add_model_config(folder)
    signal, opened = signal_of("image_embedding", Providers({"image_embedding": "open_clip"})), Store.open(store)
    images = StoredImages(opened)
    before = _peak_mb()
    items = ImageItems(opened, images.part_of)
    made = measure_items(
        opened, signal, items.ordered(items.part_of), items.load, workers=workers, now=datetime.now(UTC),
        part_items=IMAGES_A_PART,
    )  # fmt: skip
    print(json.dumps({"peak_mb": _peak_mb(), "before_mb": before, "failed": made.failures.total()}))


def _peak_mb() -> int:
    status = Path("/proc/self/status").read_text()  # getrusage would include the parent process
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


if __name__ == "__main__":
    run()
