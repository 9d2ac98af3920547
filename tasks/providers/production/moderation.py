"""OpenAI's moderation of texts: several texts a request, long ones in pieces, every category's highest score."""

from collections.abc import Iterator, Sequence

from schemas.signals import Moderation
from tasks.providers.capabilities import Failed
from tasks.providers.production.language_model import CALLS_AT_ONCE
from tasks.providers.production.openai_moderation import SERVICE, ModerationService, strongest
from tasks.providers.production.retries import CallFailed, Retries
from tasks.providers.text_windows import windows
from tasks.running.parallel import map_ordered

WINDOW_CHARACTERS, OVERLAP = 2000, 200
"""OpenAI advises pieces below 2,000 characters."""
PIECES_MAX = 16
"""Pieces in one request."""
NOTHING = Moderation(flagged_probability=0.0, flagged_categories=[], category_scores=[])
"""Said of texts without a visible character, which are not sent."""


class OpenAiModeration:
    """Moderation by OpenAI. What it flags are OpenAI's own verdicts, at its own thresholds."""

    service = SERVICE

    def __init__(self, retries: Retries | None = None) -> None:
        self._service = ModerationService(retries)
        self.version = f"openai-{self._service.model}-window{WINDOW_CHARACTERS}"

    def moderate(self, texts: Sequence[str]) -> list[Moderation | Failed]:
        """Moderation of every text, in order."""
        groups = map_ordered(self._together, _groups([pieces_of(text) for text in texts]), CALLS_AT_ONCE)
        return [value for group in groups for value in group]

    def _together(self, group: Sequence[list[str]]) -> list[Moderation | Failed]:
        """Values of some texts that fit one request, or of one long text. A rejected request is asked text by text."""
        try:
            pieces = [piece for text in group for piece in text]
            requests = [pieces[start : start + PIECES_MAX] for start in range(0, len(pieces), PIECES_MAX)]
            results = iter([result for request in requests for result in self._service.ask(request)])
        except CallFailed as failure:
            if len(group) > 1 and failure.reason == "http_400":  # one text must not hold back its neighbours
                return [value for text in group for value in self._together([text])]
            return [Failed(failure.reason)] * len(group)
        return [strongest([next(results) for _ in text]) if text else NOTHING for text in group]


def pieces_of(text: str) -> list[str]:
    """What is sent of a text: nothing without a visible character, long ones in windows."""
    return list(windows(text, WINDOW_CHARACTERS, OVERLAP)) if text.strip() else []


def _groups(texts: Sequence[list[str]]) -> Iterator[list[list[str]]]:
    """Texts, as pieces, that fit one request together; a longer one stands alone."""
    group: list[list[str]] = []
    for text in texts:
        if group and sum(map(len, group)) + len(text) > PIECES_MAX:
            yield group
            group = []
        group.append(text)
    if group:
        yield group
