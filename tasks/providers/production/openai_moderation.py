"""OpenAI's moderation service: one request within budget and pace, and an answer that is checked before it is believed.

OPENAI_API_KEY; OPENAI_BASE_URL for another server; CURATE_OPENAI_MODERATION_MODEL for another model.
"""

import os
from collections.abc import Collection, Sequence
from typing import Annotated

from openai.types.moderation import CategoryScores
from openai.types.moderation_multi_modal_input_param import ModerationMultiModalInputParam
from pydantic import BaseModel, Field, ValidationError

from schemas.run import Use
from schemas.signals import CategoryScore, Moderation
from tasks.providers.production.language_model import CALLS_AT_ONCE
from tasks.providers.production.openai_answers import failures
from tasks.providers.production.openai_api import connect
from tasks.providers.production.pace import Pace
from tasks.providers.production.retries import CallFailed, Retries
from tasks.spending.ledger import ledger

MODEL = "CURATE_OPENAI_MODERATION_MODEL"
DEFAULT_MODEL = "omni-moderation-2024-09-26"
"""The dated snapshot behind `omni-moderation-latest`: an alias would change what facts mean, not their version."""
SERVICE = "openai_moderation"
"""Name in the price file and in the record of use; a unit is a piece of text or a picture."""
CATEGORIES = frozenset(field.alias or name for name, field in CategoryScores.model_fields.items())
"""What every answer must score."""


class Result(BaseModel):
    """What the service says of one piece of text or one picture."""

    flagged: bool
    categories: dict[str, bool]
    category_scores: dict[str, Annotated[float, Field(ge=0, le=1)]]
    category_applied_input_types: dict[str, list[str]] = {}


class _Answer(BaseModel):
    results: list[Result]


class ModerationService:
    """One connection for texts and pictures."""

    def __init__(self, retries: Retries | None = None) -> None:
        self._client = connect()
        self.model = os.environ.get(MODEL) or DEFAULT_MODEL
        self._retries, self._pace = retries or Retries(), Pace(CALLS_AT_ONCE)

    def ask(self, pieces: list[str] | list[ModerationMultiModalInputParam]) -> list[Result]:
        """One result a piece, repeated while that may help. Raises CallFailed."""
        return self._retries.call(lambda: self._pace.call(lambda: self._paid(pieces)))

    def _paid(self, pieces: list[str] | list[ModerationMultiModalInputParam]) -> list[Result]:
        """One call within the budget. Raises CallFailed, also when the budget is used up."""
        price = ledger().prices.unit_usd(SERVICE)
        bill = ledger().reserve(SERVICE, None if price is None else len(pieces) * price)
        if bill is None:
            raise CallFailed("budget_reached")
        with bill:
            try:
                with failures():
                    said = self._client.moderations.with_raw_response.create(model=self.model, input=pieces)
            except CallFailed as failure:
                if failure.unbilled:
                    bill.nothing()
                raise
            bill.settle(Use(calls=1, units=len(pieces), usd=len(pieces) * (price or 0.0)))
        return _results(said.content, len(pieces))


def _results(body: bytes, count: int) -> list[Result]:
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


def strongest(results: Sequence[Result], names: Collection[str] | None = None) -> Moderation:
    """The highest score and any flag of every category, or of those named."""
    names = set().union(*(result.category_scores for result in results)) if names is None else names
    scores = {name: max(result.category_scores.get(name, 0.0) for result in results) for name in sorted(names)}
    return Moderation(
        flagged_probability=max(scores.values()),
        flagged_categories=[name for name in scores if any(result.categories.get(name) for result in results)],
        category_scores=[CategoryScore(category=name, score=score) for name, score in scores.items()],
    )
