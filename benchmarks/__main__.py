"""Runs every benchmark and writes results.jsonl."""

from importlib import import_module
from importlib.util import find_spec

from benchmarks.timing import write

MODULES = [
    "end_to_end",
    "ingest",
    "duplicates",
    "near_prompts",
    "known_hashes",
    "rate",
    "rate_coverage",
    "judge_board",
    "release",
    "release_memory",
    "release_versions",
    "llm_throughput",
    "bench_split",
    "scale_out",
    "topics",
]
IN_PRODUCTION_EXTRA = ["embedding"]

if __name__ == "__main__":
    names = MODULES + (IN_PRODUCTION_EXTRA if find_spec("open_clip") else [])
    write([row for name in names for row in import_module(f"benchmarks.{name}").run()])
