"""OpenAI's moderation of pictures: one picture a request, which is all that the service takes, without metadata."""

from collections.abc import Sequence

from openai.types.moderation_multi_modal_input_param import ModerationMultiModalInputParam

from schemas.signals import Moderation
from tasks.pixels.pictures import Picture
from tasks.providers.capabilities import Failed
from tasks.providers.production.language_model import CALLS_AT_ONCE
from tasks.providers.production.openai_api import data_url
from tasks.providers.production.openai_moderation import SERVICE, ModerationService, strongest
from tasks.providers.production.retries import CallFailed, Retries
from tasks.providers.production.upload import SIDE_MAX, for_upload
from tasks.running.parallel import map_ordered


class OpenAiImageModeration:
    """Moderation by OpenAI. What it flags are OpenAI's own verdicts, at its own thresholds."""

    service = SERVICE

    def __init__(self, retries: Retries | None = None) -> None:
        self._service = ModerationService(retries)
        self.version = f"openai-{self._service.model}-image{SIDE_MAX}"

    def moderate_pictures(self, pictures: Sequence[Picture]) -> list[Moderation | Failed]:
        """Moderation of every picture, in order: the categories that the service says it applied to it."""
        return list(map_ordered(self._one, pictures, CALLS_AT_ONCE))

    def _one(self, picture: Picture) -> Moderation | Failed:
        url = data_url(for_upload(picture))
        shown: ModerationMultiModalInputParam = {"type": "image_url", "image_url": {"url": url}}
        try:
            (result,) = self._service.ask([shown])
        except CallFailed as failure:
            return Failed(failure.reason)
        applied = {name for name, kinds in result.category_applied_input_types.items() if "image" in kinds}
        flagged = {name for name, flag in result.categories.items() if flag}
        if not applied or not applied <= result.category_scores.keys():
            return Failed("picture_not_looked_at")  # a model for texts alone, or a proxy that drops the picture
        return strongest([result], applied | flagged)
