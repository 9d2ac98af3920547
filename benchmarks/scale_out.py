"""Ingesting images with all signals, with one and two workers: threads of one process, Dask and Ray.

    python -m benchmarks.scale_out

Each engine gets the same 32 photographs of 1024 x 768 in four shards, after one shard per worker to load its models;
start-up time is reported separately. `shard_ms` is the time of an empty shard on a warm engine: Prefect's task run and
transport. Seconds are wall time: compare only within one run.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import PIL.Image
import skimage

from benchmarks.timing import write
from schemas.settings import Settings
from tasks.ingest.image_files import ImageSource
from tasks.ingest.known_images import load_known_hashes
from tasks.ingest.take_in import ImageReader
from tasks.providers import Providers
from tasks.runtime.parallel import shard_runner
from tasks.signals.run import MeasuringObserver
from tasks.storage.tables import Store

NAMES = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "ihc.png", "retina.jpg", "page.png", "brick.png")
COPIES = 4
SIDE = 1024


def image_files(folder: Path) -> list[Path]:
    """Photographs as a server keeps them: JPEG of at most 1024 pixels."""
    files = []
    for name in NAMES:
        for copy in range(COPIES):
            files.append(folder / f"{copy}-{Path(name).stem}.jpg")
            photograph(name, 37 * copy).save(files[-1], quality=88)
    return files


def photograph(name: str, shift: int) -> PIL.Image.Image:
    """One of scikit-image's photographs at 1024 x 768, its columns moved by `shift` pixels."""
    image = PIL.Image.open(Path(skimage.__file__).parent / "data" / name).convert("RGB").resize((SIDE, SIDE * 3 // 4))
    return PIL.Image.fromarray(np.roll(np.asarray(image), shift, axis=1))


FILES_A_SHARD, EMPTY_SHARDS = 8, 20
ENGINES = ("threads", "dask", "ray")


def run() -> list[dict[str, Any]]:
    """One row per engine and number of workers; `ratio` is against one worker of the same engine."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, _prefect(folder):
        files = image_files(Path(folder))
        for engine in ENGINES:
            one = _timed(engine, 1, files)
            two = _timed(engine, 2, files)
            for found in (one, two):
                rows.append(_row(engine, len(files), found, one))
                print(json.dumps(rows[-1]), flush=True)
    return rows


def _row(engine: str, files: int, found: dict[str, float], one: dict[str, float]) -> dict[str, Any]:
    return {
        "bench": f"scale-out: images taken in, {engine}, workers {found['workers']:.0f}",
        "n": files,
        "ours_s": round(found["work_s"], 2),
        "peer": f"one worker of {engine}",
        "peer_s": round(one["work_s"], 2),
        "ratio": round(one["work_s"] / found["work_s"], 2),
        "start_s": round(found["start_s"], 1),
        "shard_ms": round(found["shard_ms"], 1),
    }


@contextmanager
def _prefect(folder: str) -> Iterator[None]:
    """One temporary Prefect server for all."""
    os.environ |= {"PREFECT_HOME": f"{folder}/prefect", "PREFECT_LOGGING_LEVEL": "CRITICAL", "DO_NOT_TRACK": "1"}
    os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=180):
        yield


def _timed(engine: str, workers: int, files: list[Path]) -> dict[str, float]:
    from prefect import flow

    @flow(name=f"{engine}-{workers}")
    def timed() -> dict[str, float]:
        return _shards(engine, workers, files)

    return timed()


def _shards(engine: str, workers: int, files: list[Path]) -> dict[str, float]:
    from flows.running.task_runners import shards_by

    settings = Settings(store="", workers=workers, task_runner=engine)
    with tempfile.TemporaryDirectory() as folder, shards_by(settings):
        sources = [ImageSource(file.name, file) for file in files]
        shards = [sources[start : start + FILES_A_SHARD] for start in range(0, len(sources), FILES_A_SHARD)]
        runner = shard_runner(settings)

        def take_in(shards: list[list[ImageSource]]) -> None:
            store = Store.open(f"{folder}/{uuid4().hex}")
            reader = ImageReader(
                store, load_known_hashes([]), b"", MeasuringObserver(store, Providers(), datetime.now(UTC))
            )
            if runner is None:
                list(reader.read(chain.from_iterable(shards), workers))
            else:
                list(runner.map_ordered(reader.read_shard, shards))

        started = time.perf_counter()
        take_in([shards[0]] * workers)
        ready = time.perf_counter()
        take_in(shards)
        done = time.perf_counter()
        shard_ms = 0.0
        if runner is not None:
            list(runner.map_ordered(_nothing, range(EMPTY_SHARDS)))
            shard_ms = (time.perf_counter() - done) * 1000 / EMPTY_SHARDS
    return {"workers": workers, "start_s": ready - started, "work_s": done - ready, "shard_ms": shard_ms}


def _nothing(number: int) -> int:
    return number


if __name__ == "__main__":
    from benchmarks import scale_out  # workers find functions by the module's name

    write(scale_out.run())
