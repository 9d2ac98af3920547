"""Runs every benchmark and writes results.jsonl."""

from benchmarks import (
    bench_split,
    duplicates,
    ingest,
    known_hashes,
    llm_throughput,
    picture_decode,
    pictures,
    rate,
    release,
    release_memory,
    release_versions,
    topics,
)
from benchmarks.timing import write

if __name__ == "__main__":
    modules = (
        ingest,
        pictures,
        picture_decode,
        duplicates,
        known_hashes,
        rate,
        release,
        release_memory,
        release_versions,
        llm_throughput,
        bench_split,
        topics,
    )
    write([row for module in modules for row in module.run()])
