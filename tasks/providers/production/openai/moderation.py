"""OpenAI's moderation of texts and images. Its flags follow OpenAI's own thresholds.

CURATE_OPENAI_MODERATION_MODEL names another model.
"""

import os
from collections.abc import Collection, Sequence
from typing import Annotated

from openai.types.moderation import CategoryScores
from openai.types.moderation_multi_modal_input_param import ModerationMultiModalInputParam
from pydantic import BaseModel, Field, ValidationError

from schemas.signals import CategoryScore, Moderation
from tasks.images.decode import DecodedImage
from tasks.providers.capabilities import Failed
from tasks.providers.cost import Count, ExpectedUse, ItemSize
from tasks.providers.embedded.texts import pieces_of
from tasks.providers.production.calls import CALLS_AT_ONCE, REFUSED_CALL, CallFailed, Service, in_batches
from tasks.providers.production.openai.client import data_url, openai_client, sdk_failures
from tasks.providers.production.screening import NOTHING
from tasks.providers.upload import SENT_SIDE_MAX, for_upload
from tasks.runtime.parallel import map_ordered

MODERATION_MODEL_VARIABLE = "CURATE_OPENAI_MODERATION_MODEL"
MODERATION_DEFAULT_MODEL = "omni-moderation-2024-09-26"
"""The dated snapshot behind `omni-moderation-latest`: an alias would change what signals mean, not their version."""
MODERATION_SERVICE = "openai_moderation"
"""Name in the price file and in the record of use; a unit is a piece of text or an image."""
MODERATION_CATEGORIES = frozenset(field.alias or name for name, field in CategoryScores.model_fields.items())
"""The categories that every answer must score."""
MODERATION_CHARACTERS, MODERATION_OVERLAP = 2000, 200
"""OpenAI advises pieces below 2,000 characters."""
PIECES_MAX = 16
"""Pieces in one request."""

Pieces = list[str] | list[ModerationMultiModalInputParam]


class Result(BaseModel):
    """The service's answer about one piece of text or one image."""

    flagged: bool
    categories: dict[str, bool]
    category_scores: dict[str, Annotated[float, Field(ge=0, le=1)]]
    category_applied_input_types: dict[str, list[str]] = {}


class _Answer(BaseModel):
    results: list[Result]


class _Moderation:
    """One connection; every answer is checked for completeness."""

    service = MODERATION_SERVICE

    def __init__(self) -> None:
        self._client, self._model = (
            openai_client(),
            os.environ.get(MODERATION_MODEL_VARIABLE) or MODERATION_DEFAULT_MODEL,
        )
        self._calls = Service(MODERATION_SERVICE)

    def _ask(self, pieces: Pieces) -> list[Result]:
        """One result per piece. Raises CallFailed."""
        return self._calls.ask_for_units(len(pieces), lambda _: self._call(pieces))

    def _call(self, pieces: Pieces) -> list[Result]:
        with sdk_failures():
            content = self._client.moderations.with_raw_response.create(model=self._model, input=pieces).content
        try:
            results = _Answer.model_validate_json(content, strict=True).results
        except ValidationError:
            raise CallFailed("malformed_answer") from None
        complete = all(
            MODERATION_CATEGORIES <= r.category_scores.keys() == r.categories.keys()
            and r.flagged == any(r.categories.values())
            for r in results
        )
        if not complete or len(results) != len(pieces):
            raise CallFailed("malformed_answer")
        return results


class OpenAiModeration(_Moderation):
    """Moderation of texts. Short ones share a request; long ones are split and get each category's highest score."""

    def __init__(self) -> None:
        super().__init__()
        self.version = f"openai-{self._model}-window{MODERATION_CHARACTERS}"

    def expected_use(self, items: Sequence[ItemSize], count: Count) -> ExpectedUse:
        """Pieces of texts, so many a request."""
        pieces = sum(len(pieces_of(item.text, MODERATION_CHARACTERS, MODERATION_OVERLAP)) for item in items)
        return ExpectedUse(-(-pieces // PIECES_MAX), units=pieces)

    def moderate(self, texts: Sequence[str]) -> list[Moderation | Failed]:
        """Moderation of every text, in order."""
        pieces = [pieces_of(text, MODERATION_CHARACTERS, MODERATION_OVERLAP) for text in texts]
        groups = map_ordered(self._moderate, in_batches(pieces, len, PIECES_MAX, len(pieces)), CALLS_AT_ONCE)
        return [value for group in groups for value in group]

    def _moderate(self, group: Sequence[list[str]]) -> list[Moderation | Failed]:
        """Values of texts that fit one request, or of one long text. A rejected request is retried text by text."""
        try:
            pieces = [piece for text in group for piece in text]
            requests = [pieces[start : start + PIECES_MAX] for start in range(0, len(pieces), PIECES_MAX)]
            results = iter([result for request in requests for result in self._ask(request)])
        except CallFailed as failure:
            if len(group) > 1 and failure.reason in ("http_400", REFUSED_CALL):  # one text must not fail the others
                return [value for text in group for value in self._moderate([text])]
            return [Failed(failure.reason)] * len(group)
        return [_strongest([next(results) for _ in text]) if text else NOTHING for text in group]


class OpenAiImageModeration(_Moderation):
    """Moderation of images: one per request, which is the service's limit, without metadata."""

    def __init__(self) -> None:
        super().__init__()
        self.version = f"openai-{self._model}-image{SENT_SIDE_MAX}"

    def moderate_images(self, images: Sequence[DecodedImage]) -> list[Moderation | Failed]:
        """Moderation of every image, in order, with the categories that the service applied to images."""
        return list(map_ordered(self._moderate, images, CALLS_AT_ONCE))

    def _moderate(self, image: DecodedImage) -> Moderation | Failed:
        piece: ModerationMultiModalInputParam = {"type": "image_url", "image_url": {"url": data_url(for_upload(image))}}
        try:
            (result,) = self._ask([piece])
        except CallFailed as failure:
            return Failed(failure.reason)
        applied = {name for name, kinds in result.category_applied_input_types.items() if "image" in kinds}
        flagged = {name for name, flag in result.categories.items() if flag}
        if not applied or not applied <= result.category_scores.keys():
            return Failed("image_not_looked_at")  # a text-only model, or a proxy that drops the image
        return _strongest([result], applied | flagged)


def _strongest(results: Sequence[Result], names: Collection[str] | None = None) -> Moderation:
    """The highest score and any flag of every category, or of those in `names`."""
    names = set().union(*(result.category_scores for result in results)) if names is None else names
    scores = {name: max(result.category_scores.get(name, 0.0) for result in results) for name in sorted(names)}
    return Moderation(
        flagged_probability=max(scores.values()),
        flagged_categories=[name for name in scores if any(result.categories.get(name) for result in results)],
        category_scores=[CategoryScore(category=name, score=score) for name, score in scores.items()],
    )
