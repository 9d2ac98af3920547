"""Why values changed from one release to another, as far as the two manifests tell."""

from collections.abc import Iterator
from typing import Any

from schemas.release import Manifest

_FITTED_ANEW = "topics were fitted anew"
_DRAWN_ANEW = "the benchmark was drawn anew"
_SIGNALS = {
    "language": ["language"],
    "categories": ["categories", "code", "refusal"],
    "conv_metadata": ["tokens", "markdown", "named_entities"],
}
"""Released column -> the signals it comes from."""
_MODELS = ("model", "model_a", "model_b")
_TEXTS = ("conversation", "conversation_a", "conversation_b", "turns", "images")


def causes(old: Manifest, new: Manifest) -> dict[str, str]:
    """Column -> what made its values other ones."""
    return {column: reason for reason, columns in _found(old, new) for column in columns}


def fitted_anew(old: Manifest, new: Manifest) -> Iterator[str]:
    """A line when the topics are those of another fit; none where a release of before does not say which it has."""
    if _fits_differ(old, new):
        yield f"{_FITTED_ANEW}: rows of both releases may be in another topic, and the benchmark has other prompts"


def _fits_differ(old: Manifest, new: Manifest) -> bool:
    return None not in (old.topics_fit, new.topics_fit) and old.topics_fit != new.topics_fit


def _found(old: Manifest, new: Manifest) -> Iterator[tuple[str, tuple[str, ...]]]:
    for column, signals in _SIGNALS.items():
        anew = [name for name in signals if old.signal_versions.get(name) != new.signal_versions.get(name)]
        if anew:
            yield f"{' and '.join(anew)} measured by another version", (column,)
    if old.policy.get("renames") != new.policy.get("renames"):
        yield "the policy renames other models", _MODELS
    if _redactions(old) != _redactions(new):
        yield "the policy redacts something else", _TEXTS
    if _fits_differ(old, new):
        yield _FITTED_ANEW, ("topic",)
        yield f"{_FITTED_ANEW}, so {_DRAWN_ANEW}", ("in_bench",)
    elif old.settings.get("bench") != new.settings.get("bench"):
        yield _DRAWN_ANEW, ("in_bench",)


def _redactions(manifest: Manifest) -> list[Any]:
    return [rule for rule in manifest.policy["rules"] if rule.get("action") == "redact"]
