"""OpenAI's chat completions, and any server that speaks them (vLLM, llama.cpp, Ollama): pictures in, JSON out.

OPENAI_API_KEY; OPENAI_BASE_URL for another server; CURATE_OPENAI_MODEL for another model.
"""

import base64
import json
import os
from typing import Any

import openai
from openai.types.chat import ChatCompletionContentPartParam

from schemas.errors import MissingProvider
from tasks.providers.production.batch_api import Request
from tasks.providers.production.chat_tokens import defused
from tasks.providers.production.language_model import (
    ANSWER_TOKENS_MAX,
    LanguageModel,
    Question,
    timeout_seconds,
)
from tasks.providers.production.openai_answers import FORMAT_REFUSED, answer_text, failures, inner_json
from tasks.providers.production.openai_batches import OpenAiBatches
from tasks.providers.production.rate_headers import room
from tasks.providers.production.retries import CallFailed, Retries
from tasks.providers.production.upload import Upload
from tasks.spending.ledger import Bill

KEY, MODEL = "OPENAI_API_KEY", "CURATE_OPENAI_MODEL"
DEFAULT_MODEL = "gpt-5.4-mini-2026-03-17"
"""A dated snapshot: an alias would change what facts mean without changing their version."""
VENDOR = "openai.com"
"""Every other host is a server of one's own."""
FORMS = ("json_schema", "json_object", "text")
"""How an answer is held to its schema, best first; servers of one's own may refuse the better ones."""
ASKED_FORM = "Answer with one JSON object that fits this JSON schema, and with nothing else:\n"


def connect() -> openai.OpenAI:
    """A client that tries once; the repeats are ours. Raises MissingProvider without a key."""
    if not os.environ.get(KEY):
        raise MissingProvider(f"openai: {KEY} is not set; export a key in it, or choose another provider")
    base_url = os.environ.get("OPENAI_BASE_URL") or None
    return openai.OpenAI(base_url=base_url, timeout=timeout_seconds(), max_retries=0)


class OpenAiApi(LanguageModel):
    """One connection for all questions."""

    def __init__(self, retries: Retries | None = None) -> None:
        self._client = connect()
        self._model = os.environ.get(MODEL) or DEFAULT_MODEL
        self._own_server = not self._client.base_url.host.endswith(VENDOR)
        self._form = FORMS[0]
        super().__init__(f"openai-{self._model}", retries)

    def _complete(self, question: Question, name: str, schema: dict[str, Any], bill: Bill) -> str:
        form = self._form
        try:
            return self._say(self._request(question, name, schema), bill)
        except CallFailed as failure:
            if failure.reason != FORMAT_REFUSED or not self._own_server or form == FORMS[-1]:
                raise
        if self._form == form:  # no other call has gone on already
            self._form = FORMS[FORMS.index(form) + 1]
        return self._complete(question, name, schema, bill)

    def _say(self, body: Request, bill: Bill) -> str:
        with failures():
            # As extra body: the SDK otherwise walks through the whole request, which takes half the time of a call.
            create = self._client.chat.completions.with_raw_response.create
            said = create(model=self._model, messages=[], extra_body=body)
            completion = said.parse()
        usage = getattr(completion, "usage", None)
        if left := room(said.headers, getattr(usage, "total_tokens", None)):
            self._pace.heard(*left)
        self._count(bill, getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None))
        text = answer_text(completion)
        return text if "response_format" in body else inner_json(text)

    def _request(self, question: Question, name: str, schema: dict[str, Any]) -> Request:
        material = defused(question.material) if self._own_server else question.material
        shown: list[ChatCompletionContentPartParam] = [{"type": "text", "text": material}]
        shown += [{"type": "image_url", "image_url": {"url": data_url(upload)}} for upload in question.pictures]
        told = (
            question.instructions
            if self._form == "json_schema"
            else f"{question.instructions}\n{ASKED_FORM}{json.dumps(schema)}"
        )
        forms = {
            "json_schema": {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}},
            "json_object": {"type": "json_object"},
        }
        return {
            "model": self._model,
            "messages": [{"role": "system", "content": told}, {"role": "user", "content": shown}],
            "max_tokens" if self._own_server else "max_completion_tokens": ANSWER_TOKENS_MAX,
            **({"response_format": forms[self._form]} if self._form in forms else {}),
        }

    def _batches(self) -> OpenAiBatches:
        return OpenAiBatches(self._client)


def data_url(upload: Upload) -> str:
    """The picture inside a URL, as chat completions and moderation take it."""
    return f"data:{upload.mime_type};base64,{base64.b64encode(upload.content).decode('ascii')}"
