"""Runs every benchmark and writes results.jsonl."""

import importlib.util

from benchmarks import (
    bench_split,
    duplicates,
    ingest,
    known_hashes,
    llm_throughput,
    near_prompts,
    personal_data,
    rate,
    release,
    release_memory,
    release_versions,
    scale_out,
    topics,
)
from benchmarks.timing import write

if __name__ == "__main__":
    modules = (
        ingest,
        duplicates,
        near_prompts,
        known_hashes,
        personal_data,
        rate,
        release,
        release_memory,
        release_versions,
        llm_throughput,
        bench_split,
        scale_out,
        topics,
    )
    rows = [row for module in modules for row in module.run()]
    if importlib.util.find_spec("open_clip"):  # of the production extra
        from benchmarks import embedding

        rows += embedding.run()
    write(rows)
