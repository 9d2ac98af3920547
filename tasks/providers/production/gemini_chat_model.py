"""Free-text chats with Google's Gemini."""

from collections.abc import Sequence

from google import genai
from google.genai import types

from schemas.asked_model import AskedModel
from tasks.providers.capabilities import Reply
from tasks.providers.production.batches import Request
from tasks.providers.production.chat_model import Turn, VendorChatModel, key_of
from tasks.providers.production.gemini import GeminiBatches, failures, said, tokens_used
from tasks.providers.production.language_model import settle, timeout_seconds
from tasks.runtime.budget import Bill

ADDRESS = "https://generativelanguage.googleapis.com/"
"""Given explicitly, so that no variable of the SDK's own can redirect prompts."""


class GeminiChatModel(VendorChatModel):
    """Single calls over one connection."""

    def __init__(self, asked: AskedModel) -> None:
        super().__init__(asked)
        options = types.HttpOptions(base_url=asked.base_url or ADDRESS, timeout=int(timeout_seconds() * 1000))
        self._client = genai.Client(api_key=key_of(asked), vertexai=False, http_options=options)

    def _reply(self, turns: Sequence[Turn], bill: Bill) -> Reply:
        config = self._limits()
        config.system_instruction = _instructions(turns) or None
        with failures():
            response = self._client.models.generate_content(
                model=self.asked.model, contents=_contents(turns), config=config
            )
            settle(bill, self.service, *tokens_used(response))
            return said(response)

    def _request(self, turns: Sequence[Turn]) -> Request:
        told = _instructions(turns)
        return {
            "contents": [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in _contents(turns)],
            **({"systemInstruction": {"parts": [{"text": told}], "role": "user"}} if told else {}),
            "generationConfig": self._limits().model_dump(mode="json", by_alias=True, exclude_none=True),
        }

    def _limits(self) -> types.GenerateContentConfig:
        return types.GenerateContentConfig(
            temperature=self.asked.temperature, max_output_tokens=self.asked.answer_tokens_max
        )

    def _batches(self) -> GeminiBatches:
        return GeminiBatches(self._client, self.asked.model)


def _instructions(turns: Sequence[Turn]) -> str:
    return "\n\n".join(turn.text for turn in turns if turn.role == "system")


def _contents(turns: Sequence[Turn]) -> list[types.Content]:
    return [_content(turn) for turn in turns if turn.role != "system"]


def _content(turn: Turn) -> types.Content:
    images = [types.Part.from_bytes(data=image.content, mime_type=image.mime_type) for image in turn.images]
    role = "model" if turn.role == "assistant" else "user"
    return types.Content(role=role, parts=[types.Part.from_text(text=turn.text), *images])
