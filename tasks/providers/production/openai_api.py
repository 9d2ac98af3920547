"""OpenAI's chat completions, and any server that speaks them (vLLM, llama.cpp): pictures in, one JSON object out.

OPENAI_API_KEY; OPENAI_BASE_URL for another server; CURATE_OPENAI_MODEL for another model.
"""

import base64
import os
from typing import Any

import openai
from openai.types.chat import ChatCompletionContentPartParam

from schemas.errors import MissingProvider
from tasks.ledger import Bill
from tasks.providers.production.batch_api import Request
from tasks.providers.production.language_model import (
    ANSWER_TOKENS_MAX,
    TIMEOUT_SECONDS,
    LanguageModel,
    Question,
)
from tasks.providers.production.openai_answers import answer_text, failures
from tasks.providers.production.openai_batches import OpenAiBatches
from tasks.providers.production.retries import Retries
from tasks.providers.production.upload import Upload

KEY, MODEL = "OPENAI_API_KEY", "CURATE_OPENAI_MODEL"
DEFAULT_MODEL = "gpt-5.4-mini-2026-03-17"
"""A dated snapshot: an alias would change what facts mean without changing their version."""


def connect() -> openai.OpenAI:
    """A client that tries once; the repeats are ours. Raises MissingProvider without a key."""
    if not os.environ.get(KEY):
        raise MissingProvider(f"openai: {KEY} is not set; export a key in it, or choose another provider")
    base_url = os.environ.get("OPENAI_BASE_URL") or None
    return openai.OpenAI(base_url=base_url, timeout=TIMEOUT_SECONDS, max_retries=0)


class OpenAiApi(LanguageModel):
    """One connection for all questions."""

    def __init__(self, retries: Retries | None = None) -> None:
        self._client = connect()
        self._model = os.environ.get(MODEL) or DEFAULT_MODEL
        super().__init__(f"openai-{self._model}", retries)

    def _complete(self, question: Question, name: str, schema: dict[str, Any], bill: Bill) -> str:
        with failures():
            completion = self._client.chat.completions.create(**self._request(question, name, schema))
        usage = getattr(completion, "usage", None)
        self._count(bill, getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None))
        return answer_text(completion)

    def _request(self, question: Question, name: str, schema: dict[str, Any]) -> Request:
        shown: list[ChatCompletionContentPartParam] = [{"type": "text", "text": question.material}]
        shown += [{"type": "image_url", "image_url": {"url": data_url(upload)}} for upload in question.pictures]
        return {
            "model": self._model,
            "messages": [{"role": "system", "content": question.instructions}, {"role": "user", "content": shown}],
            "response_format": {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}},
            "max_completion_tokens": ANSWER_TOKENS_MAX,
        }

    def _batches(self) -> OpenAiBatches:
        return OpenAiBatches(self._client)


def data_url(upload: Upload) -> str:
    """The picture inside a URL, as chat completions and moderation take it."""
    return f"data:{upload.mime_type};base64,{base64.b64encode(upload.content).decode('ascii')}"
