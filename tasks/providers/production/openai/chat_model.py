"""Free-text chats with OpenAI, or with any server that speaks its chat completions (vLLM, SGLang, Ollama)."""

import re
from collections.abc import Sequence
from typing import Any

import openai
from openai.types.chat import ChatCompletion

from schemas.asked_model import AskedModel
from tasks.providers.capabilities import Reply
from tasks.providers.production.calls import CallFailed
from tasks.providers.production.chat_model import Turn, VendorChatModel, key_of, reply
from tasks.providers.production.language_model import settle, timeout_seconds
from tasks.providers.production.openai.chat import defused
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

    def _reply(self, turns: Sequence[Turn], bill: Bill) -> Reply:
        with failures():
            create = self._client.chat.completions.with_raw_response.create
            response = create(model=self.asked.model, messages=[], extra_body=self._body(turns))
            completion = response.parse()
        used = getattr(completion, "usage", None)
        if limit := rate_limit(response.headers, getattr(used, "total_tokens", None)):
            self._service.pace.heard(*limit)
        output_tokens = getattr(used, "completion_tokens", None)
        settle(bill, self.service, getattr(used, "prompt_tokens", None), output_tokens)
        return _said(completion, output_tokens)

    def _body(self, turns: Sequence[Turn]) -> dict[str, Any]:
        """The request; sent as `extra_body`, because the SDK's own conversion takes half the time of a call."""
        limit = "max_tokens" if self.asked.self_hosted else "max_completion_tokens"
        temperature = {} if self.asked.temperature is None else {"temperature": self.asked.temperature}
        messages = [{"role": turn.role, "content": self._content(turn)} for turn in turns]
        return {
            "model": self.asked.model,
            "messages": messages,
            limit: self.asked.answer_tokens_max,
            **temperature,
        }

    def _content(self, turn: Turn) -> str | list[dict[str, Any]]:
        text = _defused(turn.text) if self.asked.self_hosted and turn.role != "system" else turn.text
        if not turn.images:
            return text
        images = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in turn.images]
        return [{"type": "text", "text": text}, *images]


def _defused(text: str) -> str:
    """The text with its control tokens broken, and marks of several words as they are."""
    return "".join(part if place % 2 else defused(part) for place, part in enumerate(_PHRASE.split(text)))


def _said(completion: object, output_tokens: int | None) -> Reply:
    """The reply in a completion. Raises CallFailed for one that is not usable."""
    if not isinstance(completion, ChatCompletion) or not completion.choices:
        raise CallFailed("malformed_answer")  # the SDK returns any body that a proxy sends with status 200
    if len(completion.choices) > 1:
        raise CallFailed("contradictory_answer")
    choice = completion.choices[0]
    text = choice.message.content or ""
    if choice.message.refusal or choice.finish_reason == "content_filter":
        return reply(choice.message.refusal or text, "refused", output_tokens)
    if choice.finish_reason not in ("stop", "length"):
        raise CallFailed("unfinished_answer")
    return reply(text, "complete" if choice.finish_reason == "stop" else "truncated", output_tokens)
