"""All pairs of unit vectors within a cosine, on the CPU and on a card: pairs a second, and whether both find the same.

`python -m benchmarks.near_vectors N` prints a line of JSON. It needs numpy, and torch with CUDA for the card.
"""

import json
import sys
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.dedup.near_images import Close, cosine_pairs

SIZE, DIMENSION, COSINE_MIN = 30_000, 1280, 0.9
Vectors = npt.NDArray[np.float32]


def vectors(n: int) -> Vectors:
    """float32 (n, 1280), unit length, in a cone; one in twenty is a copy with noise, of cosines from 0.8 to 1."""
    random = np.random.default_rng(0)
    drawn = random.standard_normal((n, DIMENSION), np.float32) + 1
    copied = np.arange(0, n - 1, 20)
    noise = random.standard_normal((len(copied), DIMENSION), np.float32)
    drawn[copied] = drawn[copied + 1] + noise * random.random((len(copied), 1), np.float32) * 1.2
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def run(n: int = SIZE) -> list[dict[str, Any]]:
    """One row: a card against the CPU, in products of float32 and of TF32; without torch and a card, the CPU alone."""
    given, began = vectors(n), time.process_time()
    ours, wall_s = _timed(given, "cpu")
    row: dict[str, Any] = {"bench": "near-duplicates: vectors on a card", "n": n, "pairs": len(ours[0])}
    row |= {"cpu_s": round(time.process_time() - began, 2), "cpu_pairs_a_s": round(n * n / 2 / wall_s)}
    try:
        import torch

        row |= {"torch": torch.__version__, "card": torch.cuda.get_device_name()}
        for kind, precision in (("float32", "highest"), ("tf32", "high")):
            torch.set_float32_matmul_precision(precision)
            _timed(given[:10_000], "cuda")
            found, seconds = _timed(given, "cuda")
            same = all(a.tobytes() == b.tobytes() for a, b in zip(ours, found, strict=True))
            rates = {"pairs_a_s": round(n * n / 2 / seconds), "ratio": round(wall_s / seconds, 1), "agree": same}
            row |= {f"{kind}_{name}": value for name, value in rates.items()}
    except (ImportError, RuntimeError, AssertionError) as error:
        row["card"] = f"none: {error}"
    print(json.dumps(row), flush=True)
    return [row]


def _timed(given: Vectors, device: str) -> tuple[Close, float]:
    """The pairs, and elapsed seconds."""
    began = time.perf_counter()
    return cosine_pairs(given, COSINE_MIN, device), time.perf_counter() - began


if __name__ == "__main__":
    run(int(sys.argv[1]) if len(sys.argv) > 1 else SIZE)
