"""How near-duplicate search grows: CPU seconds and memory at one to ten million hashes, each in its own process.

python -m benchmarks.duplicates_huge [N…]
"""

import json
import resource
import subprocess
import sys
import time
from itertools import pairwise
from math import log
from typing import Any

import numpy as np

from benchmarks.duplicates import RADIUS, random_hashes
from tasks.decide.hamming import hamming_pairs

SIZES = (1_000_000, 3_000_000, 10_000_000)
PDQ_WORDS = 4
PDQ_RADIUS = 40


def measure(n: int) -> dict[str, Any]:
    """One search of n random hashes, one in fifty a copy, each confirmed by 256 bits; memory is the whole process's."""
    hashes = random_hashes(n)
    confirming = np.repeat(hashes[:, None], PDQ_WORDS, axis=1)
    hamming_pairs(hashes[:5000], RADIUS)  # compiled code is loaded
    started = time.process_time()
    pairs = hamming_pairs(hashes, RADIUS, confirming=confirming, confirming_radius=PDQ_RADIUS)
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"n": n, "ours_s": round(seconds, 2), "pairs": len(pairs), "peak_gib": round(peak, 2)}


def run(sizes: tuple[int, ...] = SIZES) -> list[dict[str, Any]]:
    """A row for each size, with the exponent of growth from the one before."""
    rows: list[dict[str, Any]] = []
    for n in sizes:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.duplicates_huge", "--one", str(n)], capture_output=True, check=True
        )
        rows.append({"bench": "near-duplicates: growth", **json.loads(done.stdout)})
        print(json.dumps(rows[-1]), flush=True)
    for before, after in pairwise(rows):
        after["exponent"] = round(log(after["ours_s"] / before["ours_s"]) / log(after["n"] / before["n"]), 2)
        print(f"exponent from {before['n']:,} to {after['n']:,}: {after['exponent']}")
    return rows


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(int(sys.argv[2]))))
    else:
        run(tuple(map(int, sys.argv[1:])) or SIZES)
