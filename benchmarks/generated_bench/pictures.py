"""Images by a model on the server of `benchmarks.llm_throughput`: lost and repeated ones, and what our process uses.

python -m benchmarks.generated_bench.pictures 10000 40
"""

import os
import sys
import time
from typing import Any

from benchmarks.llm_throughput import RATE, N, row


def draw(url: str, folder: str, n: int) -> tuple[int, float, float]:
    """Order n images with the real SDK, loop and store; returns images, wall seconds, CPU seconds."""
    os.environ |= {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{url}/v1", "NO_PROXY": "127.0.0.1"}
    from schemas.benches.generated import GeneratedBench, GeneratedDescription
    from schemas.policy import GeneratedRule
    from tasks.generated_bench.bench_state import BenchState, ItemProgress
    from tasks.generated_bench.making import draw_missing
    from tasks.providers import Providers
    from tasks.providers.ask_items import Work
    from tasks.storage.tables import Store

    store, pictures = Store.open(folder), Providers({"pictures": "openai"})["pictures"]
    bench = GeneratedBench(
        bench="b", capability="{}", general=1, fine=1, per_aspect=n, levels=["easy"], graph=True, seed=0, providers=[]
    )
    described = [
        GeneratedDescription(
            description_id=f"{place:032x}", bench="b", aspect=0, level="easy", number=place,
            description=f"Cup {place}.", topic_word="cup", key_words=[], kept_out=[], checks=[], version="1",
        )
        for place in range(n)
    ]  # fmt: skip
    made = BenchState(bench, progress=[ItemProgress(each, [], {}, [], None) for each in described])
    began, cpu, failed = time.perf_counter(), time.process_time(), True
    while failed:  # repeated runs, for what failed after all retries
        draw_missing(store, made, pictures, GeneratedRule(), work := Work())
        failed = bool(work.failures)
    return store.height("drawings"), time.perf_counter() - began, time.process_time() - cpu


def run() -> list[dict[str, Any]]:
    """A row for images."""
    return [row(N, RATE, True, draw, "_of_images")]


if __name__ == "__main__":
    row(int(sys.argv[1]), float(sys.argv[2]), True, draw, "_of_images")
