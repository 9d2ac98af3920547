"""All pairs of unit vectors within a cosine, on the CPU and on a card: pairs a second, and whether both find the same.

`python -m benchmarks.near_vectors N` prints a line of JSON. It needs numpy, and torch with CUDA for the card.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.dedup.cosine import Close, cosine_pairs
from tasks.runtime.matrices import CARD, CPU

SIZE, DIMENSION, COSINE_MIN = 30_000, 1280, 0.9
COPIES = 20
"""One of this many vectors is a copy of another with noise: cosines from 0.8 to 1."""


def vectors(n: int) -> npt.NDArray[np.float32]:
    """float32 (n, 1280), unit length, in a cone as those of a model are."""
    random = np.random.default_rng(0)
    drawn = random.standard_normal((n, DIMENSION), np.float32) + 1
    copied = np.arange(0, n - 1, COPIES)
    noise = random.standard_normal((len(copied), DIMENSION), np.float32)
    drawn[copied] = drawn[copied + 1] + noise * random.random((len(copied), 1), np.float32) * 1.2
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def run(n: int = SIZE) -> list[dict[str, Any]]:
    """One row: the card against the CPU, in products of float32 and of TF32; without a card, the CPU alone."""
    given, every = vectors(n), n * (n - 1) / 2
    ours, cpu_s, wall_s = _timed(lambda: cosine_pairs(given, COSINE_MIN, CPU))
    row = {"bench": "near-duplicates: vectors on a card", "n": n, "pairs": len(ours[0]), "cpu_s": round(cpu_s, 2)}
    row |= {"cpu_wall_s": round(wall_s, 3), "cpu_pairs_a_s": round(every / wall_s)}
    row |= {"cpu_gflops_a_core": round(2 * DIMENSION * every / cpu_s / 1e9, 1)}
    if name := _card():
        import torch

        cosine_pairs(given[:10_000], COSINE_MIN, CARD)
        for kind, precision in (("float32", "highest"), ("tf32", "high")):
            torch.set_float32_matmul_precision(precision)
            found, _, seconds = _timed(lambda: cosine_pairs(given, COSINE_MIN, CARD))
            row |= {f"card_{kind}_s": round(seconds, 3), f"card_{kind}_pairs_a_s": round(every / seconds)}
            row |= {f"ratio_{kind}": round(wall_s / seconds, 1), f"agree_{kind}": _same(ours, found)}
        row |= {"card": name, "torch": torch.__version__}
    print(json.dumps(row), flush=True)
    return [row]


def _timed(work: Callable[[], Close]) -> tuple[Close, float, float]:
    """The pairs, CPU seconds of all threads, and elapsed seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    found = work()
    return found, time.process_time() - cpu, time.perf_counter() - wall


def _card() -> str:
    """Name of the card that torch sees, or nothing."""
    try:
        import torch
    except ImportError:
        return ""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else ""


def _same(one: Close, other: Close) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


if __name__ == "__main__":
    run(int(sys.argv[1]) if len(sys.argv) > 1 else SIZE)
