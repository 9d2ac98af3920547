"""Runs every benchmark, or those that are named, and writes results.jsonl.

Those of a product are in a folder with its name, and are found there: files with a function `run`.
"""

import sys
from importlib import import_module
from pathlib import Path

from benchmarks.timing import RESULTS, write

MODULES = [
    "ingest",
    "duplicates",
    "near_vectors",
    "near_prompts",
    "known_benchmarks",
    "rate",
    "rate_coverage",
    "fragility",
    "rigging",
    "release",
    "set_stages",
    "release_versions",
    "llm_throughput",
    "bench_split",
    "scale_out",
    "topics",
    *(
        f"{file.parent.name}.{file.stem}"
        for file in sorted(Path(__file__).parent.glob("*/*.py"))
        if "\ndef run(" in file.read_text(encoding="utf-8")
    ),
]

if __name__ == "__main__":
    named = sys.argv[1:]
    if unknown := set(named) - set(MODULES):
        raise SystemExit(f"{', '.join(sorted(unknown))}: no such benchmark; there are {', '.join(MODULES)}")
    if not named:
        RESULTS.unlink(missing_ok=True)
    for name in named or MODULES:
        write(import_module(f"benchmarks.{name}").run())
