"""OpenAI's moderation of texts: several texts a request, long ones in pieces, every category's highest score.

OPENAI_API_KEY; OPENAI_BASE_URL for another server; CURATE_OPENAI_MODERATION_MODEL for another model.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Annotated

from openai.types.moderation import CategoryScores
from pydantic import BaseModel, Field, ValidationError

from schemas.run import Use
from schemas.signals import CategoryScore, Moderation
from tasks.ledger import ledger
from tasks.parallel import map_ordered
from tasks.providers.capabilities import Failed
from tasks.providers.production.language_model import CALLS_AT_ONCE
from tasks.providers.production.openai_api import connect, failures
from tasks.providers.production.pace import Pace
from tasks.providers.production.retries import CallFailed, Retries
from tasks.providers.text_windows import windows

MODEL = "CURATE_OPENAI_MODERATION_MODEL"
DEFAULT_MODEL = "omni-moderation-2024-09-26"
"""The dated snapshot behind `omni-moderation-latest`: an alias would change what facts mean, not their version."""
SERVICE = "openai_moderation"
"""Name in the price file and in the record of use; a unit is a piece of text."""
WINDOW_CHARACTERS, OVERLAP = 2000, 200
"""OpenAI advises pieces below 2,000 characters."""
PIECES_MAX = 16
"""Pieces in one request."""
CATEGORIES = frozenset(field.alias or name for name, field in CategoryScores.model_fields.items())
"""What every answer must score."""
NOTHING = Moderation(flagged_probability=0.0, flagged_categories=[], category_scores=[])
"""Said of texts without a visible character, which are not sent."""


class _Result(BaseModel):
    flagged: bool
    categories: dict[str, bool]
    category_scores: dict[str, Annotated[float, Field(ge=0, le=1)]]


class _Answer(BaseModel):
    results: list[_Result]


class OpenAiModeration:
    """Moderation by OpenAI. What it flags are OpenAI's own verdicts, at its own thresholds."""

    service = SERVICE

    def __init__(self, retries: Retries | None = None) -> None:
        self._client = connect()
        self._model = os.environ.get(MODEL) or DEFAULT_MODEL
        self._retries, self._pace = retries or Retries(), Pace(CALLS_AT_ONCE)
        self.version = f"openai-{self._model}-window{WINDOW_CHARACTERS}"

    def moderate(self, texts: Sequence[str]) -> list[Moderation | Failed]:
        """Moderation of every text, in order."""
        pieces = [list(windows(text, WINDOW_CHARACTERS, OVERLAP)) if text.strip() else [] for text in texts]
        groups = map_ordered(self._together, _groups(pieces), CALLS_AT_ONCE)
        return [value for group in groups for value in group]

    def _together(self, group: Sequence[list[str]]) -> list[Moderation | Failed]:
        """Values of some texts that fit one request, or of one long text. A rejected request is asked text by text."""
        try:
            pieces = [piece for text in group for piece in text]
            requests = [pieces[start : start + PIECES_MAX] for start in range(0, len(pieces), PIECES_MAX)]
            results = iter([result for request in requests for result in self._ask(request)])
        except CallFailed as failure:
            if len(group) > 1 and failure.reason == "http_400":  # one text must not hold back its neighbours
                return [value for text in group for value in self._together([text])]
            return [Failed(failure.reason)] * len(group)
        return [_strongest([next(results) for _ in text]) for text in group]

    def _ask(self, pieces: list[str]) -> list[_Result]:
        return self._retries.call(lambda: self._pace.call(lambda: self._paid(pieces)))

    def _paid(self, pieces: list[str]) -> list[_Result]:
        """One call within the budget. Raises CallFailed, also when the budget is used up."""
        price = ledger().prices.unit_usd(SERVICE)
        bill = ledger().reserve(SERVICE, None if price is None else len(pieces) * price)
        if bill is None:
            raise CallFailed("budget_reached")
        with bill:
            try:
                with failures():
                    said = self._client.moderations.with_raw_response.create(model=self._model, input=pieces)
            except CallFailed as failure:
                if failure.unbilled:
                    bill.nothing()
                raise
            bill.settle(Use(calls=1, units=len(pieces), usd=len(pieces) * (price or 0.0)))
        return _results(said.content, len(pieces))


def _results(body: bytes, count: int) -> list[_Result]:
    """One result a piece, each with all categories and a verdict that agrees with them. Raises CallFailed."""
    try:
        results = _Answer.model_validate_json(body, strict=True).results
    except ValidationError:
        raise CallFailed("malformed_answer") from None
    whole = all(
        CATEGORIES <= r.category_scores.keys() == r.categories.keys() and r.flagged == any(r.categories.values())
        for r in results
    )
    if not whole or len(results) != count:
        raise CallFailed("malformed_answer")
    return results


def _strongest(results: Sequence[_Result]) -> Moderation:
    if not results:
        return NOTHING
    names = sorted(set().union(*(result.category_scores for result in results)))
    scores = {name: max(result.category_scores.get(name, 0.0) for result in results) for name in names}
    return Moderation(
        flagged_probability=max(scores.values()),
        flagged_categories=[name for name in names if any(result.categories.get(name) for result in results)],
        category_scores=[CategoryScore(category=name, score=score) for name, score in scores.items()],
    )


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
