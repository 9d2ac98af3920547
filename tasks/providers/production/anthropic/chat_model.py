"""Free-text chats with Anthropic's Claude, by single calls or by Message Batches."""

import base64
from collections.abc import Sequence
from typing import Any

import anthropic

from schemas.asked_model import AskedModel
from tasks.providers.capabilities import Reply, ReplyShape
from tasks.providers.production.anthropic.batches import AnthropicBatches
from tasks.providers.production.anthropic.replies import failures, said, tokens_used
from tasks.providers.production.batches.api import Request
from tasks.providers.production.chat_model import Turn, VendorChatModel, key_of
from tasks.providers.production.language_model import settle, timeout_seconds
from tasks.providers.production.upload import Upload
from tasks.runtime.budget import Bill

ADDRESS = "https://api.anthropic.com"
"""Given explicitly, so that ANTHROPIC_BASE_URL cannot redirect prompts to a server that no models file names."""


class AnthropicChatModel(VendorChatModel):
    """Single calls over one connection."""

    def __init__(self, asked: AskedModel) -> None:
        super().__init__(asked)
        self._client = anthropic.Anthropic(
            api_key=key_of(asked), base_url=asked.base_url or ADDRESS, timeout=timeout_seconds(), max_retries=0
        )

    def _reply(self, turns: Sequence[Turn], bill: Bill, shape: ReplyShape | None = None) -> Reply:
        request = self._request(turns, shape)
        with failures():
            message = self._client.messages.create(
                model=self.asked.model,
                max_tokens=self.asked.answer_tokens_max,
                messages=[],
                extra_body=request,
                timeout=timeout_seconds(),  # given, or else the SDK refuses long answers
            )
        settle(bill, self.service, *tokens_used(message))
        return said(message)

    def _request(self, turns: Sequence[Turn], shape: ReplyShape | None = None) -> Request:
        system = "\n\n".join(turn.text for turn in turns if turn.role == "system")
        temperature = {} if self.asked.temperature is None else {"temperature": self.asked.temperature}
        return {
            "model": self.asked.model,
            "max_tokens": self.asked.answer_tokens_max,
            "messages": [_message(turn) for turn in turns if turn.role != "system"],
            **({"system": system} if system else {}),
            **temperature,
            **({"output_config": {"format": {"type": "json_schema", "schema": dict(shape.schema)}}} if shape else {}),
        }

    def _batches(self) -> AnthropicBatches:
        return AnthropicBatches(self._client)


def _message(turn: Turn) -> dict[str, Any]:
    """A turn; text without words is left out beside images, because Anthropic refuses it."""
    parts = turn.parts[1:] if turn.images and not turn.text.strip() and not turn.places else turn.parts
    content = [{"type": "text", "text": part} if isinstance(part, str) else _image(part) for part in parts]
    return {"role": turn.role, "content": content}


def _image(upload: Upload) -> dict[str, Any]:
    data = base64.b64encode(upload.content).decode("ascii")
    return {"type": "image", "source": {"type": "base64", "media_type": upload.mime_type, "data": data}}
