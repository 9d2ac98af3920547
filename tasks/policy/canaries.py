"""Harmless probes that every run must catch before it releases anything, planted in a small arena with its own store.

They are fake personal data in texts and on a drawn card, a photograph of a face, and listed images. Nothing is real:
addresses end in example.org, numbers are the ones that card networks, telephone authorities and ISO 13616 publish for
examples, and the photograph is NASA's portrait of an astronaut that scikit-image ships.
"""

import hashlib
import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import PIL.ImageDraw

from schemas.errors import BadInput
from schemas.policy import Action, Over, Policy, Rule
from schemas.settings import THREADS, Settings
from tasks.drawing.canvas import font, photographs, view
from tasks.images.measures import pdq_digits
from tasks.storage.keyed_ids import known_key
from tasks.storage.queries.released import conversations_as_released
from tasks.storage.queries.signals import StoredImages
from tasks.storage.tables import Store

EMAIL, CANARY_CARD = "canary.probe@example.org", "4111 1111 1111 1111"
PHONE, IBAN = "+1 202-555-0143", "GB82 WEST 1234 5698 7654 32"
NOON = 1_718_884_800
"""2024-06-20 12:00 UTC: a fixed file time, so that a second run finds the files unchanged."""
STORE = "canaries"
"""Folder of the probes' store inside the store of the run."""
FLAT = 8
"""Levels of 255 by which pixels of a filled box may differ, because of JPEG artefacts at its edges."""


@dataclass(frozen=True)
class Probe:
    """One conversation that no release may contain unredacted."""

    name: str
    """Name; the conv_id is `canary_` and the name."""
    question: str = "What is this?"
    answer: str = "I see what you sent."
    image: bytes | None = field(default=None, repr=False)
    signal: str | None = None
    """The signal that must detect it; None when the image must not be opened at all."""
    over: tuple[Over, ...] = ()
    """The parts on which a rule can catch it."""
    types: frozenset[str] = frozenset()
    """Types of personal data in it, for rules that name types."""
    secrets: tuple[str, ...] = ()
    """Strings that must not remain in its texts."""
    box: tuple[int, int, int, int] | None = None
    """left, top, right, bottom of the area that must be filled in its image."""
    listed: str = ""
    """Line on the list of known hashes."""

    @property
    def conv_id(self) -> str:
        """The id under which it is logged."""
        return f"canary_{self.name}"

    @property
    def image_name(self) -> str:
        """The name under which its image is logged."""
        return hashlib.md5(self.name.encode(), usedforsecurity=False).hexdigest()


def probes() -> Sequence[Probe]:
    """All probes, with the same bytes every time."""
    personal = f"Mail {EMAIL}, call {PHONE}, pay with {CANARY_CARD} or from {IBAN}."
    types, secrets = frozenset({"email", "phone", "card", "iban"}), (EMAIL, PHONE, CANARY_CARD, IBAN)
    of_users, of_models = (Over.MESSAGES, Over.USER_MESSAGES), (Over.MESSAGES, Over.ASSISTANT_MESSAGES)
    file = _written(40, "LISTED FILE")
    original, copy = view(photographs("scenes")[1]).image, io.BytesIO()
    original.resize((384, 256)).save(copy, "JPEG", quality=80)
    return (
        Probe("question", question=personal, signal="text_pii", over=of_users, types=types, secrets=secrets),
        Probe("answer", answer=personal, signal="text_pii", over=of_models, types=types, secrets=secrets),
        Probe(
            "card",
            image=_written(36, "MEMBER CARD", EMAIL, CANARY_CARD),
            signal="text_pii",
            over=(Over.IMAGE_TEXTS,),
            types=frozenset({"email", "card"}),
            box=(60, 140, 400, 165),
        ),
        Probe(
            "face",
            image=_png(view(photographs("faces")[0]).image),
            signal="faces",
            over=(Over.IMAGES,),
            box=(200, 80, 250, 160),
        ),
        Probe("listed_file", image=file, listed=f"sha256 {hashlib.sha256(file).hexdigest()}"),
        Probe("listed_image", image=copy.getvalue(), listed=f"pdq {pdq_digits(np.asarray(original))}"),
    )


def _written(size: int, *lines: str) -> bytes:
    """A card with lines of text."""
    image = PIL.Image.new("RGB", (640, 320), "white")
    draw = PIL.ImageDraw.Draw(image)
    for row, line in enumerate(lines):
        draw.text((40, 40 + 90 * row), line, fill="black", font=font("sans", size))
    return _png(image)


def _png(image: PIL.Image.Image) -> bytes:
    sink = io.BytesIO()
    image.save(sink, "PNG")
    return sink.getvalue()


def plant(probes: Sequence[Probe], folder: Path, settings: Settings) -> Settings:
    """Write the arena of the probes below `folder`; returns the settings of the run with it and a store of its own.

    A store that was started with another user key, as by an earlier run that had a wrong one, is begun anew.
    """
    logs, images, hashes_file = folder / "arena" / "logs", folder / "arena" / "images", folder / "known.txt"
    lines = [json.dumps(_record(place, probe)) for place, probe in enumerate(probes)]
    files = {
        logs / "vision-tmp-2024-06-20-conv.json": ("\n".join(lines) + "\n").encode(),
        **{images / f"{probe.image_name}.png": probe.image for probe in probes if probe.image is not None},
        hashes_file: "\n".join(probe.listed for probe in probes).encode(),
    }
    for file, content in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        os.utime(file, (NOON, NOON))
    store = Store(f"{settings.store}/{STORE}")
    try:
        known_key(store)
    except BadInput:
        store.fs.rm(store.path, recursive=True)
    arena_settings = {
        "store": store.root,
        "logs": str(logs),
        "images": str(images),
        "known_hashes": [*settings.known_hashes, str(hashes_file)],
        "known_benchmarks": [],  # no probe shows one, and indexing takes long
        "task_runner": THREADS,  # the folder is this machine's
        "accept_shrunk": True,  # another version plants others
        **dict.fromkeys(("format", "presets", "since", "until")),
    }
    return settings.model_copy(update=arena_settings)


def _record(place: int, probe: Probe) -> dict[str, object]:
    question = probe.question if probe.image is None else [probe.question, [probe.image_name]]
    messages = [["user", question], ["assistant", probe.answer]]
    state = {"conv_id": probe.conv_id, "model_name": "canary", "offset": 0, "messages": messages}
    return {"tstamp": NOON + place, "type": "chat", "model": "canary", "ip": "192.0.2.1", "state": state}


def escaped(store: Store, probes: Sequence[Probe], policy: Policy) -> dict[str, str]:
    """Name of each probe that was not caught -> what is wrong; empty when all were caught."""
    decided = {row["item_id"]: row for row in store.read("decisions").to_dicts()}
    released = {row["conversation_id"]: row for row in conversations_as_released(store).to_dicts()}
    wrong = {probe.name: _wrong(store, probe, policy, decided, released) for probe in probes}
    return {name: what for name, what in wrong.items() if what}


def _wrong(
    store: Store, probe: Probe, policy: Policy, decided: dict[str, dict[str, Any]], released: dict[str, dict[str, Any]]
) -> str | None:
    """Why a probe was not caught; None when it was, or when no rule is about it."""
    decision = decided.get(probe.conv_id)
    if probe.listed:
        taken_in = probe.conv_id in released or decision is not None
        return "its image is on a list of known hashes and was taken in" if taken_in else None
    if decision is None:
        return "it was never decided"
    rules = rules_about(probe, policy)
    actions = {rule.action for rule in rules}
    if not decision["kept_by_screening"] or not rules:
        return None
    if actions & {Action.DROP, Action.HOLD}:
        return "it is kept"
    if Action.REDACT in actions:
        return _left(store, probe, released[probe.conv_id])
    return None if any(rule.reason in decision["tags"] for rule in rules) else "it is not tagged"


def rules_about(probe: Probe, policy: Policy) -> list[Rule]:
    """The rules that should catch the probe."""
    return [
        rule
        for rule in policy.rules
        if rule.signal.partition(".")[0] == probe.signal
        and rule.over in probe.over
        and rule.models != "open"
        and (not rule.contains_any or probe.types & set(rule.contains_any))
    ]


def _left(store: Store, probe: Probe, released: dict[str, Any]) -> str | None:
    """Complaint about what its redacted form still contains, or None."""
    if any(secret in turn["content"] for secret in probe.secrets for turn in released["turns"]):
        return "its text is released as it was"
    if probe.box is None:
        return None
    images = StoredImages(store, "images", "redacted_images")
    with PIL.Image.open(io.BytesIO(images[released["image_ids"][0]].bytes)) as opened:
        inside = np.asarray(opened.convert("RGB").crop(probe.box))
    return None if np.ptp(inside, axis=(0, 1)).max() <= FLAT else "its image is released as it was"
