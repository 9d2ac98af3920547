"""Reading a log: our reader against parsing alone, with orjson (the floor) and with json (what FastChat uses)."""

import json
import tempfile
from pathlib import Path
from typing import Any

import orjson

from benchmarks.timing import compare
from tasks.demo.arena import generate_arena
from tasks.ingest.log_files import log_files
from tasks.ingest.people import Pseudonyms
from tasks.ingest.read_logs import read_logs

CONVERSATIONS, BATTLES = 6_000, 2_000


def run() -> list[dict[str, Any]]:
    """Seconds to read the lines of a drawn log."""
    with tempfile.TemporaryDirectory() as folder:
        arena = Path(folder) / "arena"
        generate_arena(arena, conversations=CONVERSATIONS, battles=BATTLES, pictures_max=24, problems=False)
        files = log_files(arena / "logs")
        people = Pseudonyms(b"benchmark key 16")
        lines = sum(file.path.read_bytes().count(b"\n") for file in files)

        def ours() -> int:
            return len(read_logs(files, people).sightings)

        def parse(loads: Any) -> int:
            return sum(len(loads(line)) for file in files for line in file.path.open("rb"))

        return [
            compare("ingest: read lines", lines, ours, "orjson.loads alone", lambda: parse(orjson.loads)),
            compare("ingest: read lines", lines, ours, "json.loads alone", lambda: parse(json.loads)),
        ]
