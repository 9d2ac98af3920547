"""Free-text chats with Google's Gemini."""

from collections.abc import Sequence

from google import genai
from google.genai import types

from schemas.asked_model import AskedModel
from tasks.providers.capabilities import Reply, ReplyShape
from tasks.providers.production.batches.api import Request
from tasks.providers.production.batches.records import account_of
from tasks.providers.production.chat_model import Turn, VendorChatModel, key_of
from tasks.providers.production.google.gemini import GeminiBatches, failures, said, tokens_used
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
        self._account = account_of(asked.base_url or ADDRESS, key_of(asked))

    def _reply(self, turns: Sequence[Turn], bill: Bill, shape: ReplyShape | None = None) -> Reply:
        config = self._limits(shape)
        config.system_instruction = _instructions(turns) or None
        with failures():
            response = self._client.models.generate_content(
                model=self.asked.model, contents=_contents(turns), config=config
            )
            settle(bill, self.service, *tokens_used(response))
            return said(response)

    def _request(self, turns: Sequence[Turn], shape: ReplyShape | None = None) -> Request:
        told = _instructions(turns)
        return {
            "contents": [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in _contents(turns)],
            **({"systemInstruction": {"parts": [{"text": told}], "role": "user"}} if told else {}),
            "generationConfig": self._limits(shape).model_dump(mode="json", by_alias=True, exclude_none=True),
        }

    def _limits(self, shape: ReplyShape | None) -> types.GenerateContentConfig:
        found = types.GenerateContentConfig(
            temperature=self.asked.temperature, max_output_tokens=self.asked.answer_tokens_max
        )
        if shape:
            found.response_mime_type, found.response_json_schema = "application/json", dict(shape.schema)
        return found

    def _batches(self) -> GeminiBatches:
        return GeminiBatches(self._client, self.asked.model, self._account)


def _instructions(turns: Sequence[Turn]) -> str:
    return "\n\n".join(turn.text for turn in turns if turn.role == "system")


def _contents(turns: Sequence[Turn]) -> list[types.Content]:
    return [_content(turn) for turn in turns if turn.role != "system"]


def _content(turn: Turn) -> types.Content:
    parts = [
        types.Part.from_text(text=part)
        if isinstance(part, str)
        else types.Part.from_bytes(data=part.content, mime_type=part.mime_type)
        for part in turn.parts
    ]
    return types.Content(role="model" if turn.role == "assistant" else "user", parts=parts)
