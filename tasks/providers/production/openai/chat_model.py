"""Free-text chats with OpenAI, or with any server that speaks its chat completions (vLLM, SGLang, Ollama)."""

import re
from collections.abc import Sequence
from typing import Any

import openai

from schemas.asked_model import AskedModel
from tasks.providers.capabilities import Reply, ReplyShape
from tasks.providers.production.batches.api import Request
from tasks.providers.production.chat_model import Turn, VendorChatModel, key_of
from tasks.providers.production.language_model import settle, timeout_seconds
from tasks.providers.production.openai.chat import OpenAiBatches, defused, said
from tasks.providers.production.openai.client import data_url, failures, rate_limit
from tasks.runtime.budget import Bill

ADDRESS = "https://api.openai.com/v1"
"""Given explicitly, so that OPENAI_BASE_URL cannot redirect prompts to a server that the models file does not name."""

_PHRASE = re.compile(r"(<\|[\w']+(?: [\w']+)+\|>)")
"""A mark of several words, such as <|User Prompt|>: published judge prompts have them, and no chat template does."""


class OpenAiChatModel(VendorChatModel):
    """Single calls over one connection."""

    def __init__(self, asked: AskedModel) -> None:
        super().__init__(asked)
        self._client = openai.OpenAI(
            api_key=key_of(asked), base_url=asked.base_url or ADDRESS, timeout=timeout_seconds(), max_retries=0
        )

    def _reply(self, turns: Sequence[Turn], bill: Bill, shape: ReplyShape | None = None) -> Reply:
        with failures():
            create = self._client.chat.completions.with_raw_response.create
            response = create(model=self.asked.model, messages=[], extra_body=self._request(turns, shape))
            completion = response.parse()
        used = getattr(completion, "usage", None)
        if limit := rate_limit(response.headers, getattr(used, "total_tokens", None)):
            self._service.pace.heard(*limit)
        settle(bill, self.service, getattr(used, "prompt_tokens", None), getattr(used, "completion_tokens", None))
        return said(completion)

    def _request(self, turns: Sequence[Turn], shape: ReplyShape | None = None) -> Request:
        """The request; sent as `extra_body`, because the SDK's own conversion takes half the time of a call."""
        limit = "max_tokens" if self.asked.self_hosted else "max_completion_tokens"
        temperature = {} if self.asked.temperature is None else {"temperature": self.asked.temperature}
        messages = [{"role": turn.role, "content": self._content(turn)} for turn in turns]
        return {
            "model": self.asked.model,
            "messages": messages,
            limit: self.asked.answer_tokens_max,
            **temperature,
            **(_response_format(shape) if shape else {}),
        }

    def _batches(self) -> OpenAiBatches:
        return OpenAiBatches(self._client)

    def _content(self, turn: Turn) -> str | list[dict[str, Any]]:
        safe = _defused if self.asked.self_hosted and turn.role != "system" else str
        if not turn.images:
            return safe(turn.text)
        return [
            {"type": "text", "text": safe(part)}
            if isinstance(part, str)
            else {"type": "image_url", "image_url": {"url": data_url(part)}}
            for part in turn.parts
        ]


def _response_format(shape: ReplyShape) -> dict[str, Any]:
    asked = {"name": shape.name, "strict": True, "schema": dict(shape.schema)}
    return {"response_format": {"type": "json_schema", "json_schema": asked}}


def _defused(text: str) -> str:
    """The text with its control tokens broken, and marks of several words as they are."""
    return "".join(part if place % 2 else defused(part) for place, part in enumerate(_PHRASE.split(text)))
