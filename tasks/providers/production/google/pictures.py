"""Google's Gemini models that draw.

GEMINI_API_KEY; CURATE_GEMINI_BASE_URL for another server; CURATE_GEMINI_IMAGE_MODEL for another model.
"""

from google.genai import types

from tasks.providers.production.calls import CallFailed
from tasks.providers.production.drawn_images import REFUSED, VendorPictures, model_of
from tasks.providers.production.google.gemini import gemini_client, gemini_failures
from tasks.runtime.budget import Bill

MODEL, DEFAULT_MODEL = "CURATE_GEMINI_IMAGE_MODEL", "gemini-2.5-flash-image"
_REFUSALS = {
    types.FinishReason.SAFETY, types.FinishReason.BLOCKLIST, types.FinishReason.PROHIBITED_CONTENT,
    types.FinishReason.SPII, types.FinishReason.RECITATION, types.FinishReason.IMAGE_SAFETY,
    types.FinishReason.IMAGE_PROHIBITED_CONTENT, types.FinishReason.IMAGE_RECITATION,
}  # fmt: skip


class GeminiPictures(VendorPictures):
    """One image a call, among the parts of the answer."""

    def __init__(self) -> None:
        self._client = gemini_client()
        super().__init__("google", model_of(MODEL, DEFAULT_MODEL))

    def _image(self, told: str, bill: Bill) -> bytes:
        config = types.GenerateContentConfig(response_modalities=["IMAGE"])
        with gemini_failures():
            response = self._client.models.generate_content(model=self.model_name, contents=told, config=config)
        feedback = response.prompt_feedback
        if feedback is not None and feedback.block_reason is not None:
            raise CallFailed(REFUSED)
        candidates = response.candidates or []
        if len(candidates) != 1:
            raise CallFailed("malformed_answer")
        if candidates[0].finish_reason in _REFUSALS:
            raise CallFailed(REFUSED)
        content = candidates[0].content
        found = [part.inline_data.data for part in (content.parts if content else None) or () if part.inline_data]
        if len(found) != 1 or not found[0]:
            raise CallFailed("no_image_in_answer")
        return bytes(found[0])
