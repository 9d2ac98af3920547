"""Runs every benchmark and writes results.jsonl."""

from importlib import import_module
from importlib.util import find_spec

from benchmarks.timing import RESULTS, write

MODULES = [
    "end_to_end",
    "ingest",
    "duplicates",
    "near_prompts",
    "rate",
    "rate_coverage",
    "fragility",
    "release",
    "set_stages",
    "release_versions",
    "llm_throughput",
    "bench_split",
    "scale_out",
    "topics",
    "arena",
]
IN_PRODUCTION_EXTRA = ["embedding", "pictures"]

if __name__ == "__main__":
    names = MODULES + (IN_PRODUCTION_EXTRA if find_spec("open_clip") else [])
    RESULTS.unlink(missing_ok=True)
    for name in names:
        write(import_module(f"benchmarks.{name}").run())
