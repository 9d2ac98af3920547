"""OpenAI's image models, over its Images API.

OPENAI_API_KEY; OPENAI_BASE_URL for another server; CURATE_OPENAI_IMAGE_MODEL for another model.
"""

import openai

from tasks.providers.production.calls import CallFailed
from tasks.providers.production.drawn_images import REFUSED, VendorPictures, decoded, model_of
from tasks.providers.production.openai.client import openai_client, rate_limit, sdk_failures
from tasks.runtime.budget import Bill

MODEL, DEFAULT_MODEL = "CURATE_OPENAI_IMAGE_MODEL", "gpt-image-1"
SIZE, QUALITY = "1024x1024", "medium"
"""Size and quality that the price file's price is for."""
_REFUSALS = ("moderation_blocked", "content_policy_violation")


class OpenAiPictures(VendorPictures):
    """One image a call, in the answer itself: addresses are not fetched."""

    def __init__(self) -> None:
        self._client = openai_client()
        super().__init__("openai", model_of(MODEL, DEFAULT_MODEL))

    def _image(self, told: str, bill: Bill) -> bytes:
        body = {"model": self.model_name, "prompt": told, "n": 1, "size": SIZE, "quality": QUALITY}
        with sdk_failures():
            try:
                reply = self._client.images.with_raw_response.generate(prompt=told, extra_body=body)
                response = reply.parse()
            except openai.BadRequestError as error:
                if error.code in _REFUSALS:
                    bill.nothing()
                    raise CallFailed(REFUSED, unbilled=True) from None
                raise
        if limit := rate_limit(reply.headers, None):
            self._service.pace.heard(*limit)
        images = getattr(response, "data", None)
        if not images:
            raise CallFailed("malformed_answer")
        if images[0].b64_json is None:
            raise CallFailed("address_in_place_of_image")
        return decoded(images[0].b64_json)
