"""What the explorer costs beside its filters: its start, the first page, memory with more images, and the topic map.

`python -c "from benchmarks import explore_pages as e; e.start(); e.memory()"`. The map is opened in Chromium beside
embedding-atlas, which has other pins: install it elsewhere and name it in EMBEDDING_ATLAS, then `e.topic_map()`.
"""

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import polars as pl

from benchmarks.explore import SERVE, cpu_seconds, searched_texts, server
from benchmarks.release_store import decided_store
from tasks.explore import topic_map as places
from tasks.explore.of_store import OfStore
from tasks.storage.tables import Store

START_ROWS, MEMORY_IMAGES, MAP_ROWS = 1_000, 3_000, 100_000
READY_SECONDS, PAGE_MB = 5, 0.25
"""Goals: from the command to the link, and the first page with its images and style sheet."""
_PART, _SIDE = 256, 208
"""Images in a part of the table; pixels of noise a side, about 35 KB as JPEG."""
_ARGUMENTS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]


def start(place: str = "") -> dict[str, Any]:
    """Seconds from the command to the link, and bytes of the first page; of a drawn store, or of the one at `place`."""
    with tempfile.TemporaryDirectory() as folder:
        place = place or _store(Path(folder), START_ROWS).root
        began = time.perf_counter()
        with server(_command(place)) as (pid, link):
            elapsed, spent = time.perf_counter() - began, cpu_seconds(pid)
            sizes = _first_page(link)
            row = {"bench": "explore, start", "n": _items(place), "ours_s": round(spent, 2), "goal_s": READY_SECONDS}
            return _told(
                row | {"elapsed_s": round(elapsed, 2), "page_mb": round(sum(sizes) / 1e6, 3), "goal_mb": PAGE_MB}
            )


def memory(images: int = MEMORY_IMAGES) -> dict[str, Any]:
    """Peak memory after every small and every full image was shown, with images of 250 bytes and of 35 KB."""
    peaks = []
    for enlarged in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            store = _store(Path(folder), images)
            ids = _enlarge_images(store) if enlarged else store.read("images", ["image_id"])["image_id"].to_list()
            with server(_command(store.root)) as (pid, link):
                visitor, base = _visitor(link)
                for kind in ("thumbs", "images"):
                    for image_id in ids:
                        visitor.open(f"{base}{kind}/{image_id}").read()
                peaks.append(_peak_mb(pid))
            size = store.read("images", ["bytes"])["bytes"].bin.size().sum()
    row = {"bench": "explore, peak memory in MB", "n": images, "ours_mb": peaks[1], "tiny_images_mb": peaks[0]}
    return _told(row | {"images_mb": round(size / 1e6)})


def topic_map(conversations: int = MAP_ROWS) -> dict[str, Any]:
    """Bytes and seconds until the map is drawn, and until an export of embedding-atlas asks for no more."""
    program = os.environ.get("EMBEDDING_ATLAS")
    assert program, "install embedding-atlas elsewhere and name it in EMBEDDING_ATLAS"
    with tempfile.TemporaryDirectory() as folder:
        store = _store(Path(folder), conversations)
        points = places.on_map(OfStore(store, lambda *_: []).listing).select("x", "y", "topic", text="snippet")
        points.with_columns(pl.col("topic").cast(pl.String)).write_parquet(Path(folder) / "points.parquet")
        with server(_command(store.root)) as (_, link):
            ours = _opened(link, f"{link.partition('?')[0]}topics", "#map[data-ready]")
        began = time.perf_counter()
        size = _atlas(program, Path(folder))
        made = time.perf_counter() - began
        with _hosted(Path(folder) / "atlas") as address:
            theirs = _opened(address, address, "")
    row = {"bench": "explore, topic map", "n": points.height, "ours_s": round(ours[0], 2), "ours_mb": round(ours[1], 2)}
    row |= {"peer": "embedding-atlas", "peer_s": round(theirs[0], 2), "peer_mb": round(theirs[1], 2)}
    row |= {"ratio": round(theirs[0] / ours[0], 1), "bytes_ratio": round(theirs[1] / ours[1], 1)}
    return _told(row | {"peer_export_mb": round(size / 1e6, 1), "peer_export_s": round(made, 1)})


def _store(folder: Path, conversations: int) -> Store:
    store = decided_store(folder / "store", conversations, conversations // 10)
    searched_texts(store)
    return store


def _command(place: str) -> list[str]:
    return [sys.executable, "-c", SERVE, "view", place, "--no-browser"]


def _items(place: str) -> int:
    from flows.commands.view import opened

    with opened(place, None) as (source, _):
        return source.listing.height


def _visitor(link: str) -> tuple[urllib.request.OpenerDirector, str]:
    """Somebody who has followed the link, and the explorer's address."""
    visitor = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    visitor.open(link).read()
    return visitor, link.partition("?")[0]


def _first_page(link: str) -> list[int]:
    """Bytes of the first page and of everything that it loads."""
    visitor, base = _visitor(link)
    page = visitor.open(base).read()
    loaded = dict.fromkeys(re.findall(r'"/((?:static|thumbs)/[^"?]+)"', page.decode()))
    return [len(page), *(len(visitor.open(base + path).read()) for path in loaded)]


def _enlarge_images(store: Store) -> list[str]:
    """Give every image 35 KB of noise, in parts as ingest writes them; returns their ids."""
    rows, random = store.read("images"), np.random.default_rng(0)
    store.replace("images", rows.clear())
    for part in rows.iter_slices(_PART):
        contents = [_noise(random) for _ in range(part.height)]
        kinds = {"format": pl.lit("jpeg"), "width": pl.lit(_SIDE), "height": pl.lit(_SIDE)}
        store.append("images", part.with_columns(bytes=pl.Series(contents), **kinds).cast(dict(rows.schema)))
    return rows["image_id"].to_list()


def _noise(random: np.random.Generator) -> bytes:
    stream = io.BytesIO()
    pixels = random.integers(0, 255, (_SIDE, _SIDE, 3), np.uint8)
    PIL.Image.fromarray(pixels).save(stream, "JPEG", quality=90)
    return stream.getvalue()


def _peak_mb(pid: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) // 1024


def _atlas(program: str, folder: Path) -> int:
    """Bytes of the export of points.parquet, which is written to atlas/."""
    columns = ["--x", "x", "--y", "y", "--text", "text", "--disable-projection"]
    subprocess.run(
        [program, folder / "points.parquet", *columns, "--export-application", folder / "atlas"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return sum(path.stat().st_size for path in (folder / "atlas").rglob("*") if path.is_file())


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@contextmanager
def _hosted(folder: Path) -> Iterator[str]:
    """A folder on a web server of its own: its address."""
    handler = partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as hosting:
        threading.Thread(target=hosting.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{hosting.server_address[1]}/"
        hosting.shutdown()


def _opened(link: str, address: str, ready: str) -> tuple[float, float]:
    """(seconds, MB) until `ready` is on the page, or without it until nothing more was asked for half a second."""
    from playwright.sync_api import sync_playwright

    sizes: list[int] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=_ARGUMENTS)
        page = browser.new_page()
        if link != address:
            page.goto(link)
        page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
        began = time.perf_counter()
        page.goto(address)
        if ready:
            page.wait_for_selector(ready, timeout=300_000)
        else:
            page.wait_for_load_state("networkidle", timeout=300_000)
        seconds = time.perf_counter() - began - (0 if ready else 0.5)
        browser.close()
    return seconds, sum(sizes) / 1e6


def _told(row: dict[str, Any]) -> dict[str, Any]:
    print(row, flush=True)
    return row
