"""Answers piece by piece from any server with OpenAI's chat completions, for an arena."""

import base64
import os
from collections.abc import AsyncIterator, Sequence
from typing import Any

import openai

from schemas.asked_model import ArenaModel
from schemas.errors import MissingProvider
from tasks.providers.capabilities import ChatMessage

CONNECT_SECONDS, SILENT_SECONDS = 10.0, 60.0
"""How long a server may take to be reached, and between two pieces of an answer."""


class AnswerCutOff(Exception):
    """The server ended an answer without saying that it is whole."""


class OpenAiStream:
    """One model of an arena."""

    def __init__(self, served: ArenaModel) -> None:
        self._served = served
        key = os.environ.get(served.key, "") if served.key else "none"
        if not key:
            raise MissingProvider(f"model {served.name!r}: the variable that its `key` names is not set; export it")
        timeout = openai.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS)
        self._client = openai.AsyncOpenAI(api_key=key, base_url=served.base_url, timeout=timeout, max_retries=0)

    async def stream(self, messages: Sequence[ChatMessage]) -> AsyncIterator[str]:
        """The pieces of the next message. Raises the SDK's errors, or AnswerCutOff."""
        request = {
            "max_tokens": self._served.answer_tokens_max,
            "temperature": self._served.temperature,
            "top_p": self._served.top_p,
        }
        whole = False
        async with await self._client.chat.completions.create(
            model=self._served.asked_as,
            messages=[],
            stream=True,
            extra_body={"messages": [_said(message) for message in messages]}
            | {name: value for name, value in request.items() if value is not None},
        ) as pieces:
            async for piece in pieces:
                for choice in piece.choices[:1]:
                    whole = whole or choice.finish_reason is not None
                    if text := choice.delta.content:
                        yield text
        if not whole:
            raise AnswerCutOff


def _said(message: ChatMessage) -> dict[str, Any]:
    if not message.images:
        return {"role": message.role, "content": message.text}
    urls = [f"data:image/{kind};base64,{base64.b64encode(content).decode()}" for kind, content in message.images]
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return {"role": message.role, "content": [{"type": "text", "text": message.text}, *images]}
