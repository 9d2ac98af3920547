"""A filter and a search in the explorer of a store against datasette on the same rows, both as servers of their own.

datasette has other pins: install it elsewhere and name it in DATASETTE, then
`python -c "from benchmarks import explore; explore.run()"`. The same facets are counted on both sides; its time limits
are raised so that none is left out.
"""

import os
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.release_store import decided_store
from tasks.explore.listing import FACETS
from tasks.explore.of_store import OfStore
from tasks.storage.tables import Store

CONVERSATIONS, VOTES, ROUNDS = 100_000, 10_000, 5
ASKED = {
    "first page": {},
    "filter": {"model": "model-7"},
    "search": {"q": "ba1 "},
    "both": {"vote": "tie", "q": "ba1 "},
}
"""Kind of view -> what is asked for; every one counts all facets."""
SERVE = "from flows.commands import main; main()"


def run(conversations: int = CONVERSATIONS) -> list[dict[str, Any]]:
    """One row for each kind of view: CPU seconds of either server, medians of five."""
    with tempfile.TemporaryDirectory() as folder:
        store = decided_store(Path(folder) / "store", conversations, conversations // 10)
        searched_texts(store)
        rows = _sqlite(OfStore(store, lambda *_: []).listing, Path(folder) / "items.db")
        command = [sys.executable, "-c", SERVE, "view", store.root, "--no-browser"]
        with server(command) as (pid, link), _datasette(Path(folder) / "items.db") as (peer, address):
            visitor = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            visitor.open(link).read()
            base, found = link.partition("?")[0], []
            for name, asked in ASKED.items():
                mine, others = f"{base}?{urllib.parse.urlencode(asked)}", address + _asked(asked)
                ours, theirs = _spent(pid, visitor, mine), _spent(peer, urllib.request.build_opener(), others)
                found.append(_row(name, rows, ours, theirs))
            return found


def _row(name: str, rows: int, ours: tuple[float, float], theirs: tuple[float, float]) -> dict[str, Any]:
    row = {
        "bench": f"explore, {name}",
        "n": rows,
        "ours_s": round(ours[0], 4),
        "peer": "datasette",
        "peer_s": round(theirs[0], 4),
        "ratio": round(theirs[0] / ours[0], 1),
        "wall_ratio": round(theirs[1] / ours[1], 1),
    }
    print(row, flush=True)
    return row


def searched_texts(store: Store) -> None:
    """State that no text has personal data, as a measured store does."""
    for part in store.read_parts("signals/tokens", ["content_id"]):
        about = {"version": "1", "provider": "none", "measured_at": datetime(2024, 9, 18, tzinfo=UTC)}
        clean = part.with_columns(pl.lit(value).alias(name) for name, value in about.items())
        empty = store.empty("signals/text_pii")
        lists = (pl.lit([], dtype=empty.schema[name]).alias(name) for name in ("spans", "types"))
        store.append("signals/text_pii", clean.with_columns(*lists).select(empty.columns).cast(empty.schema))


def _sqlite(listing: pl.DataFrame, file: Path) -> int:
    """The listing as a table; lists are JSON, as datasette's facets of arrays want them."""
    listing = listing.filter(pl.col("kind").cast(pl.String) != "side of a battle")
    lists = [facet.column for facet in FACETS if facet.many]
    plain = [facet.column for facet in FACETS if not facet.many]
    columns = ["key", "snippet", "searched", *plain, *lists]
    each = listing.select(
        "key", "snippet", "searched", pl.col(plain).cast(pl.String),
        *(pl.format('["{}"]', pl.col(name).cast(pl.List(pl.String)).list.join('", "')).alias(name) for name in lists),
    ).with_columns(pl.col(lists).replace('[""]', "[]"))  # fmt: skip
    with closing(sqlite3.connect(file)) as database:
        database.execute(f"CREATE TABLE items ({', '.join(f'{name} TEXT' for name in columns)})")
        database.executemany(f"INSERT INTO items VALUES ({', '.join('?' * len(columns))})", each.iter_rows())
        database.commit()
    return each.height


def _asked(asked: dict[str, str]) -> str:
    names = {"q": "searched__contains", "model": "models__arraycontains"}
    pairs = [("_size", "24")] + [("_facet_array" if facet.many else "_facet", facet.column) for facet in FACETS]
    return "?" + urllib.parse.urlencode(pairs + [(names.get(name, name), value) for name, value in asked.items()])


@contextmanager
def server(command: list[str]) -> Iterator[tuple[int, str]]:
    """A server that prints its link first: (process id, link)."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            yield running.pid, running.stdout.readline().strip()
        finally:
            running.terminate()


@contextmanager
def _datasette(file: Path) -> Iterator[tuple[int, str]]:
    program = os.environ.get("DATASETTE") or shutil.which("datasette")
    assert program, "install datasette elsewhere and name it in DATASETTE"
    limits = [word for name in ("sql", "facet") for word in ("--setting", f"{name}_time_limit_ms", "60000")]
    with subprocess.Popen(
        [program, str(file), "--port", "0", *limits], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            assert running.stderr is not None
            link = next(found for line in running.stderr if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
            yield running.pid, f"{link[0]}/items/items"
        finally:
            running.terminate()


def _spent(pid: int, visitor: urllib.request.OpenerDirector, address: str) -> tuple[float, float]:
    """Medians of (CPU seconds of the server, elapsed seconds) of a request, after one to warm up."""
    visitor.open(address).read()
    each = []
    for _ in range(ROUNDS):
        before, began = cpu_seconds(pid), time.perf_counter()
        visitor.open(address).read()
        each.append((cpu_seconds(pid) - before, time.perf_counter() - began))
    cpu, wall = (statistics.median(some) for some in zip(*each, strict=True))
    return cpu, wall


def cpu_seconds(pid: int) -> float:
    """CPU seconds of all threads of a process, from the scheduler, to the nanosecond."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
