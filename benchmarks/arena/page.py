"""The arena's page: CPU of a battle, the time to its first word, and battles at once.

The peer is the same application when it repaints the page on every piece of an answer. The models are scripted: the
first word comes after half a second, then 60 words a second. Their first word says when they were asked and when they
gave it, by the clock of the machine, so what timers add to their half second is theirs. `first_word_added` is the rest
of the time from the visitor's send to the first word, as a share of half a second; of several battles, which all begin
in the same instant, that includes waiting for the others. The visitor is a bare HTTP client, whose work counts, too.
CPU is that of the server's process, in nanoseconds; of a battle alone both are over several, one after another.
`models_s` is how much of it the scripted models take, read by nobody: they wake the process at every word.

Memory is the slope of resident memory over several counts of open conversations, after a collection of garbage: a
difference of two readings also has what the allocator took for the rush of the first ones.

    python -m benchmarks.arena.page
"""

import asyncio
import gc
import http.client
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx

WORDS, FIRST_SECONDS, WORDS_A_SECOND = 240, 0.5, 60.0
ONE, FEW, MANY = 1, 4, 40
CONVERSATIONS, COUNTS = 200, 6
"""Opened at once, and how often, for memory."""
ALONE = 10
"""Battles one after another that a battle alone is measured on."""
_FIRST = re.compile(r"word0 (\d+\.\d+) (\d+\.\d+)")
"""The first word of a model, with the times when it was asked and when it gave it."""


class Scripted:
    """A model with fixed words."""

    async def stream(self, messages: Sequence[object]) -> AsyncIterator[str]:
        """One word after another."""
        asked = time.monotonic()
        for number in range(WORDS):
            due = asked + FIRST_SECONDS + number / WORDS_A_SECOND
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            yield f"word{number} " if number else f"word0 {asked:.6f} {time.monotonic():.6f} "


class Passes:
    """Checks that find nothing."""

    version = "1"

    def moderate(self, texts: Sequence[str]) -> list[Any]:
        """Nothing is flagged."""
        from schemas.signals import Moderation

        return [Moderation(flagged_probability=0.0, flagged_categories=[], category_scores=[]) for _ in texts]


def serve(update_seconds: float, port: int, folder: Path) -> None:
    """Serve an arena that repaints at most every so many seconds."""
    import uvicorn

    from schemas.asked_model import ArenaModel
    from tasks.arena import answers
    from tasks.arena.app import make_app
    from tasks.arena.entrance import Admission, Visitors
    from tasks.arena.logs import LogFolder
    from tasks.arena.rounds import Arena
    from tasks.arena.settings import ArenaSettings
    from tasks.arena.uploads import Uploads

    answers.UPDATE_SECONDS = update_seconds
    models = [ArenaModel(name=name, base_url="http://127.0.0.1") for name in ("model-one", "model-two")]
    admission = Admission(Passes(), 0.8, Passes())  # type: ignore[arg-type] - no image is sent
    visitors = Visitors(b"k" * 32, messages_a_minute=100_000)
    logs = LogFolder(folder / "logs")
    (folder / "logs").mkdir()
    arena = Arena(
        models, lambda _: Scripted(), admission, logs, visitors, version="benchmark", answers_at_once=2 * CONVERSATIONS
    )
    app = make_app(arena, Uploads(admission), ArenaSettings(), "127.0.0.1")
    app.get("/collected")(gc.collect)
    # without a lifespan no conversation is let go, however long a loaded machine takes
    uvicorn.run(app, port=port, log_level="critical", lifespan="off")


def battle(url: str, added: list[float]) -> None:
    """One battle over HTTP; appends the seconds until its first word that its model did not take."""
    with httpx.Client(base_url=url, timeout=300) as visitor:
        visitor.get("/")
        visitor.post("/terms")
        cookies = "; ".join(f"{name}={value}" for name, value in visitor.cookies.items())
    headers = {"cookie": cookies, "content-type": "application/json"}
    client = http.client.HTTPConnection(url.removeprefix("http://"), timeout=300)
    client.connect()
    began = time.monotonic()
    client.request("POST", "/say", b'{"mode":"battle","text":"Hello"}', headers)
    number = json.loads(client.getresponse().read())["number"]
    client.request("GET", f"/c/{number}/events", headers=headers)
    found = False
    for line in client.getresponse():
        if not found and (words := _FIRST.findall(line.decode())):
            seen = time.monotonic()
            added.append(min(seen - began - (float(gave) - float(asked)) for asked, gave in words))
            found = True
    client.close()


def measure(update_seconds: float, at_once: int) -> tuple[float, float, float]:
    """(CPU seconds of the server a battle, seconds until all have ended, median seconds added to the first word)."""
    with socket.socket() as opened, tempfile.TemporaryDirectory() as folder:
        opened.bind(("127.0.0.1", 0))
        port = opened.getsockname()[1]
        opened.close()
        arguments = ["serve", str(update_seconds), str(port), folder]
        with subprocess.Popen([sys.executable, "-m", "benchmarks.arena.page", *arguments]) as server:
            try:
                url = f"http://127.0.0.1:{port}"
                _wait(url)
                battle(url, [])
                times = ALONE if at_once == 1 else 1
                before, began, added = _cpu_seconds(server.pid), time.monotonic(), list[float]()
                for _ in range(times):
                    _together(url, at_once, added)
                wall = (time.monotonic() - began) / times
                cpu = (_cpu_seconds(server.pid) - before) / times / at_once
                return cpu, wall, statistics.median(added)
            finally:
                server.kill()


def models_seconds(at_once: int) -> float:
    """CPU seconds a battle of its scripted models, which run in the server's process."""

    async def read() -> None:
        async for _ in Scripted().stream([]):
            pass

    async def read_all() -> None:
        await asyncio.gather(*(read() for _ in range(2 * at_once)))

    before = time.process_time()
    asyncio.run(read_all())
    return (time.process_time() - before) / at_once


def memory_kb() -> float:
    """Resident memory that one more open conversation takes; it has ended, and waits for a vote."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port = opened.getsockname()[1]
        opened.close()
        with subprocess.Popen(
            [sys.executable, "-m", "benchmarks.arena.page", "serve", "0.25", str(port), folder]
        ) as server:
            try:
                url = f"http://127.0.0.1:{port}"
                _wait(url)
                resident = []
                for _ in range(COUNTS):
                    _together(url, CONVERSATIONS, [])
                    httpx.get(f"{url}/collected", timeout=300)
                    resident.append(_resident_kb(server.pid))
                counts = [CONVERSATIONS * (number + 1) for number in range(COUNTS)]
                return statistics.linear_regression(counts[1:], resident[1:]).slope
            finally:
                server.kill()


def _together(url: str, count: int, added: list[float]) -> None:
    threads = [threading.Thread(target=battle, args=(url, added)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _resident_kb(process: int) -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1000


def _wait(url: str) -> None:
    for _ in range(600):
        try:
            httpx.get(f"{url}/health")
            return
        except httpx.TransportError:
            time.sleep(0.1)
    raise TimeoutError("the arena does not answer")


def _cpu_seconds(process: int) -> float:
    """CPU time of a process and its threads, also of those that have ended; Linux's clock of another process."""
    return time.clock_gettime(~process << 3 | 2)


def run() -> list[dict[str, Any]]:
    """A row for one battle, a few and many."""
    rows = []
    for at_once in (ONE, FEW, MANY):
        ours, wall, first = measure(0.25, at_once)
        theirs, their_wall, _ = measure(0.0, at_once)
        rows.append(
            {
                "bench": f"arena: {at_once} battle{'s at once' if at_once > 1 else ''}",
                "n": at_once,
                "ours_s": round(ours, 3),
                "models_s": round(models_seconds(at_once), 3),
                "peer": "the same page, repainted on every piece",
                "peer_s": round(theirs, 3),
                "ratio": round(theirs / ours, 2),
                "ours_elapsed_s": round(wall, 1),
                "peer_elapsed_s": round(their_wall, 1),
                "first_word_added": round(first / FIRST_SECONDS, 4),
            }
        )
        print(rows[-1], flush=True)
    rows.append(
        {
            "bench": "arena: memory of an open conversation",
            "n": CONVERSATIONS * COUNTS,
            "ours_kb": round(memory_kb(), 1),
        }
    )
    print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
    else:
        run()
