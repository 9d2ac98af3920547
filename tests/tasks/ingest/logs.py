"""Log records with good defaults, and a log folder ingested in one call.

write(folder, "vision-tmp-2024-06-20-conv.json", chat("a"), vote("a", "b"), b"broken")
tables = ingested(folder, tmp_path / "store")
"""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import zstandard

from schemas.settings import Settings
from tasks.images.decode import DecodedImage
from tasks.ingest import steps
from tasks.ingest.take_in import NoObserver, SignalRows
from tasks.runtime.progress import Measured
from tasks.storage.tables import Store
from tests.builders import image_bytes

NOON = 1_718_884_800.0  # 2024-06-20 12:00 UTC
DAY = "vision-tmp-2024-06-20-conv.json"
IP = "203.0.113.7"


def conv_id(name: str) -> str:
    """A conv_id of 32 hex digits from a short name."""
    return name.encode().hex().rjust(32, "0")


def image_name(name: str) -> str:
    """A logged image name from a short name."""
    return name.encode().hex().rjust(32, "f")


def state(name: str = "a", *texts: str, images: list[str] | None = None, **changes: Any) -> dict[str, Any]:
    """A conversation state; `texts` are the user's and the model's messages in turn."""
    texts = texts or ("What is this?", "A cat.")
    messages = [["user" if place % 2 == 0 else "assistant", text] for place, text in enumerate(texts)]
    if images is not None:
        messages[0][1] = [texts[0], images]
    return {
        "template_name": "t",
        "system_message": "",
        "roles": ["user", "assistant"],
        "messages": messages,
        "offset": 0,
        "conv_id": conv_id(name),
        "model_name": "model-x",
    } | changes


def chat(name: str = "a", *texts: str, at: float = 0.0, kind: str = "chat", **changes: Any) -> dict[str, Any]:
    """A chat line, or with `kind` an upvote, downvote or flag, `at` seconds after noon.

    `images` are named in the first message; `beside` are image names beside the state, as early servers wrote them.
    """
    record = {"tstamp": NOON + at, "type": kind, "model": changes.pop("model", "model-x"), "ip": changes.pop("ip", IP)}
    beside = {"images": changes.pop("beside")} if "beside" in changes else {}
    return record | {"state": changes.pop("state", None) or state(name, *texts, **changes)} | beside


def vote(
    left: Any = "a", right: Any = "b", kind: str = "leftvote", *, at: float = 10.0, **changes: Any
) -> dict[str, Any]:
    """A vote line, or with `kind` a share; sides are states or names."""
    sides = [
        side if isinstance(side, dict) else state(side, model_name=model) for side, model in ((left, "x"), (right, "y"))
    ]
    return {"tstamp": NOON + at, "type": kind, "models": ["", ""], "states": sides, "ip": IP} | changes


def line(record: Any) -> bytes:
    """A record as the server writes it; bytes as they are."""
    return record if isinstance(record, bytes) else json.dumps(record).encode()


def write(folder: Path, name: str, *records: Any, end: bytes = b"\n") -> Path:
    """A log file of these records, compressed when its name says so."""
    content = b"\n".join(map(line, records)) + end
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = {".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}.get(path.suffix)
    path.write_bytes(packed(content) if packed else content)
    return path


def served(folder: Path, *names: str) -> Path:
    """The log folder, with an image file of each name; they differ with their place among the names."""
    (folder / "serve_images").mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(names):
        (folder / "serve_images" / f"{name}.png").write_bytes(image_bytes(seed))
    return folder


class _Looked(NoObserver):
    def __init__(self, ids: list[str]) -> None:
        self._ids = ids

    def measure(self, images: Sequence[DecodedImage]) -> tuple[SignalRows, Measured]:
        self._ids.extend(each.image_id for each in images)
        return super().measure(images)


def ingested(logs: Path, store: Path, looked: list[str] | None = None, **settings: Any) -> Store:
    """The store after the three steps of ingest. `looked` collects the ids of the images that are looked at."""
    looked = [] if looked is None else looked
    chosen = Settings(logs=str(logs), store=str(store), **{"workers": 1} | settings)
    steps.read_log_lines.fn(chosen)
    steps.take_in_images.fn(chosen, _Looked(looked))
    steps.assemble.fn(chosen)
    return Store(str(store))


def conversations_of(tmp_path: Path, *records: Any, name: str = DAY) -> pl.DataFrame:
    """The conversations that one log file of these records becomes."""
    write(tmp_path / "logs", name, *records)
    return ingested(tmp_path / "logs", tmp_path / "store").read("conversations")


def texts(row: dict[str, Any]) -> list[str]:
    """The messages of a row of `conversations`."""
    return [turn["content"] for turn in row["turns"]]


def rejected(store: Store) -> dict[tuple[str, int | None], str]:
    """(source, line) -> reason."""
    return {
        (source, line): reason
        for source, line, reason in store.read("rejects").select("source", "line", "reason").iter_rows()
    }
