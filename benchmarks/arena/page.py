"""The arena's page: CPU of a battle, the time to its first word, and battles at once.

The peer is the same application when it repaints the page on every piece of an answer. The models are scripted: the
first word comes after half a second, then 60 words a second. `first_word_added` is the share that the arena adds to
that half second; of several battles, which all begin in the same instant, that includes waiting for the others. CPU is
that of the server's process, from Linux's /proc.

    python -m benchmarks.arena.page
"""

import asyncio
import os
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
CONVERSATIONS = 200
"""Open at once, for memory."""
ALONE = 5
"""Battles one after another that the first word of a battle alone is measured on."""


class Scripted:
    """A model with fixed words."""

    async def stream(self, messages: Sequence[object]) -> AsyncIterator[str]:
        """One word after another."""
        began = time.monotonic() + FIRST_SECONDS
        for number in range(WORDS):
            await asyncio.sleep(max(0.0, began + number / WORDS_A_SECOND - time.monotonic()))
            yield f"word{number} "


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
    settings = ArenaSettings()
    uvicorn.run(make_app(arena, Uploads(admission), settings, "127.0.0.1"), port=port, log_level="critical")


def battle(url: str, took: list[float]) -> None:
    """One battle over HTTP; appends the seconds until its first word."""
    with httpx.Client(base_url=url, timeout=300) as client:
        client.get("/")
        client.post("/terms")
        began = time.monotonic()
        number = client.post("/say", json={"mode": "battle", "text": "Hello"}).json()["number"]
        found = False
        with client.stream("GET", f"/c/{number}/events") as stream:
            for line in stream.iter_lines():
                if not found and "word0" in line:
                    took.append(time.monotonic() - began)
                    found = True


def measure(update_seconds: float, at_once: int) -> tuple[float, float, float]:
    """(CPU seconds of the server for each battle, seconds until all have ended, median seconds to the first word)."""
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
                before, began, took = _cpu_seconds(server.pid), time.monotonic(), list[float]()
                _together(url, at_once, took)
                wall = time.monotonic() - began
                cpu = (_cpu_seconds(server.pid) - before) / at_once
                for _ in range(ALONE - 1 if at_once == 1 else 0):
                    battle(url, took)
                return cpu, wall, statistics.median(took)
            finally:
                server.kill()


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
                _together(url, CONVERSATIONS, [])
                before = _resident_kb(server.pid)
                _together(url, CONVERSATIONS, [])
                return (_resident_kb(server.pid) - before) / CONVERSATIONS
            finally:
                server.kill()


def _together(url: str, count: int, took: list[float]) -> None:
    threads = [threading.Thread(target=battle, args=(url, took)) for _ in range(count)]
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
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


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
                "peer": "the same page, repainted on every piece",
                "peer_s": round(theirs, 3),
                "ratio": round(theirs / ours, 2),
                "ours_elapsed_s": round(wall, 1),
                "peer_elapsed_s": round(their_wall, 1),
                "first_word_added": round(first / FIRST_SECONDS - 1, 3),
            }
        )
        print(rows[-1], flush=True)
    rows.append(
        {"bench": "arena: memory of an open conversation", "n": CONVERSATIONS, "ours_kb": round(memory_kb(), 1)}
    )
    print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
    else:
        run()
