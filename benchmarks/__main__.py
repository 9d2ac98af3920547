"""Runs every benchmark and writes results.jsonl."""

from importlib import import_module

from benchmarks.timing import RESULTS, write

MODULES = [
    "end_to_end",
    "ingest",
    "duplicates",
    "near_prompts",
    "rate",
    "rate_coverage",
    "fragility",
    "rigging",
    "exposure",
    "release",
    "set_stages",
    "release_versions",
    "llm_throughput",
    "bench_split",
    "scale_out",
    "topics",
    "arena",
]

if __name__ == "__main__":
    RESULTS.unlink(missing_ok=True)
    for name in MODULES:
        write(import_module(f"benchmarks.{name}").run())
