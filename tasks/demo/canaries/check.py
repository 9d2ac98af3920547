"""Checks that a policy caught every probe."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import PIL.Image

from schemas.policy import Action, Policy, Rule
from tasks.demo.canaries.probes import Probe
from tasks.storage.queries.images import StoredImages
from tasks.storage.queries.released import conversations_as_released
from tasks.storage.tables import Store

FLAT = 8
"""Levels of 255 by which pixels of a filled box may differ, because of JPEG artefacts at its edges."""


def escaped(store: Store, probes: Sequence[Probe], policy: Policy) -> dict[str, str]:
    """Name of each probe that was not caught -> what is wrong; empty when all were caught."""
    found: dict[str, str] = {}
    decided = {row["item_id"]: row for row in store.read("decisions").to_dicts()}
    released = {row["conversation_id"]: row for row in conversations_as_released(store).to_dicts()}
    for probe in probes:
        decision = decided.get(probe.conv_id)
        if probe.listed:
            if probe.conv_id in released or decision is not None:
                found[probe.name] = "its image is on a list of known hashes and was taken in"
        elif decision is None:
            found[probe.name] = "it was never decided"
        elif decision["keep"]:
            why = _how(store, probe, _rules(probe, policy), decision, released[probe.conv_id])
            if why:
                found[probe.name] = why
    return found


def _rules(probe: Probe, policy: Policy) -> list[Rule]:
    """The rules that should catch the probe."""
    return [
        rule
        for rule in policy.rules
        if rule.signal.partition(".")[0] == probe.signal
        and rule.over in probe.over
        and (not rule.contains_any or probe.types & set(rule.contains_any))
    ]


def _how(
    store: Store, probe: Probe, rules: Sequence[Rule], decision: dict[str, Any], released: dict[str, Any]
) -> str | None:
    """Why a kept probe was not caught; None when no rule is about it, or it is tagged or redacted as required."""
    actions = {rule.action for rule in rules}
    if actions & {Action.DROP, Action.HOLD}:
        return "it is kept"
    if Action.REDACT in actions:
        return _left(store, probe, released)
    tagged = any(rule.reason in decision["tags"] for rule in rules)
    return None if tagged or not rules else "it is not tagged"


def _left(store: Store, probe: Probe, released: dict[str, Any]) -> str | None:
    """What its redacted form still contains, or None."""
    texts = [turn["content"] for turn in released["turns"]]
    if any(secret in text for secret in probe.secrets for text in texts):
        return "its text is released as it was"
    if probe.box is None:
        return None
    images = StoredImages(store, "images", "redacted_images")
    with PIL.Image.open(io.BytesIO(images[released["image_ids"][0]].bytes)) as opened:
        inside = np.asarray(opened.convert("RGB").crop(probe.box))
    return None if np.ptp(inside, axis=(0, 1)).max() <= FLAT else "its image is released as it was"
