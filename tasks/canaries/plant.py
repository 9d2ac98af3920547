"""Probes -> the log, pictures and hash list of a small arena of their own."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from schemas.settings import THREADS, Settings
from tasks.canaries.probes import Probe

NOON = 1_718_884_800
"""2024-06-20 12:00 UTC: files keep one time, so that a second run finds them unchanged."""
STORE = "canaries"
"""Where they live, inside the store of the run."""


def plant(probes: Sequence[Probe], folder: Path, settings: Settings) -> Settings:
    """Write the arena below `folder`; returns the settings of the run with this arena and a store of its own."""
    logs, pictures = folder / "arena" / "logs", folder / "arena" / "pictures"
    for made in (logs, pictures):
        made.mkdir(parents=True)
    lines = [json.dumps(_record(place, probe)) for place, probe in enumerate(probes)]
    _write(logs / "vision-tmp-2024-06-20-conv.json", ("\n".join(lines) + "\n").encode())
    for probe in probes:
        if probe.picture is not None:
            _write(pictures / f"{_name(probe)}.png", probe.picture)
    _write(folder / "known.txt", "\n".join(probe.listed for probe in probes).encode())
    own = {
        "store": f"{settings.store}/{STORE}",
        "logs": str(logs),
        "images": str(pictures),
        "known_hashes": [*settings.known_hashes, str(folder / "known.txt")],
        "task_runner": THREADS,  # the folder is this machine's
        **dict.fromkeys(("format", "presets", "since", "until")),
    }
    return settings.model_copy(update=own)


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    os.utime(file, (NOON, NOON))


def _name(probe: Probe) -> str:
    return hashlib.md5(probe.name.encode(), usedforsecurity=False).hexdigest()


def _record(place: int, probe: Probe) -> dict[str, object]:
    question: object = probe.question if probe.picture is None else [probe.question, [_name(probe)]]
    state = {
        "conv_id": probe.conv_id,
        "model_name": "canary",
        "offset": 0,
        "messages": [["user", question], ["assistant", probe.answer]],
    }
    return {"tstamp": NOON + place, "type": "chat", "model": "canary", "ip": "192.0.2.1", "state": state}
