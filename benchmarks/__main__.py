"""Runs every benchmark and writes results.jsonl."""

from benchmarks import duplicates, ingest, known_hashes, pictures, rate, release
from benchmarks.timing import write

if __name__ == "__main__":
    write([row for module in (ingest, pictures, duplicates, known_hashes, rate, release) for row in module.run()])
