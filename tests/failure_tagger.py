"""A tagger of failures from another package, which counts what it is asked."""

from schemas.benches.bench import FailureLabel
from tasks.providers.capabilities import Failed

ASKED: list[str] = []
"""Prompts, in order."""


class Told:
    """Calls a prompt a hallucination, fails for those on recognition, and cannot tell those on reasoning."""

    looks_at_images = False
    version = "told-1"

    def tag(self, documents):
        ASKED.extend(document.prompt for document in documents)
        return [self._of(document.prompt) for document in documents]

    def _of(self, prompt):
        if "recognition" in prompt:
            return Failed("refused")
        return FailureLabel(failure_type=None if "reasoning" in prompt else "hallucination")
