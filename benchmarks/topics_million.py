"""Topics of a million planted documents: seconds and peak memory. `python -m benchmarks.topics_million [N]`."""

import json
import resource
import sys
import tempfile
import time
from datetime import date

import numpy as np
import polars as pl
from sklearn.metrics import adjusted_rand_score

from benchmarks.topics import planted
from schemas.settings import Settings
from tasks.sample.fit_and_assign import find
from tasks.tables import Store

CHUNK = 50_000


def main(n: int) -> None:
    """Documents of the same 40 topics, all of one day."""
    parts = [planted(CHUNK, draw=place) for place in range(n // CHUNK)]
    vectors = np.concatenate([vectors for vectors, _ in parts])
    owner = np.concatenate([owner for _, owner in parts])
    del parts
    ids = pl.Series("document_id", [f"{row:032x}" for row in range(len(vectors))])
    days = pl.Series("day", [date(2024, 9, 1)]).new_from_index(0, len(vectors))
    with tempfile.TemporaryDirectory() as folder:
        started, began = time.process_time(), time.perf_counter()
        topics = find(Store.open(folder), days, ids, vectors, Settings(store=folder))
        row = {
            "bench": "topics of a million",
            "n": len(vectors),
            "cpu_s": round(time.process_time() - started),
            "wall_s": round(time.perf_counter() - began),
            "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 1),
            "fitted": len(topics.rows),
            "topics": int(topics.found.labels.max()) + 1,
            "adjusted_rand": round(float(adjusted_rand_score(owner, topics.found.labels)), 3),
        }
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
