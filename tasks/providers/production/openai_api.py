"""OpenAI's chat completions, and any server that speaks them (vLLM, llama.cpp): pictures in, one JSON object out.

OPENAI_API_KEY; OPENAI_BASE_URL for another server; CURATE_OPENAI_MODEL for another model.
"""

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
from openai.types.chat import ChatCompletion, ChatCompletionContentPartParam

from schemas.errors import MissingProvider
from tasks.ledger import Bill
from tasks.providers.production.language_model import (
    ANSWER_TOKENS_MAX,
    TIMEOUT_SECONDS,
    LanguageModel,
    Question,
    http_failure,
    seconds,
)
from tasks.providers.production.retries import CallFailed, Retries
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


@contextmanager
def failures() -> Iterator[None]:
    """The SDK's exceptions as CallFailed."""
    try:
        yield
    except openai.APITimeoutError:
        raise CallFailed("timed_out", may_pass=True) from None
    except openai.APIConnectionError:
        raise CallFailed("connection_failed", may_pass=True) from None
    except openai.APIStatusError as error:
        raise _status_failure(error) from None
    except ValueError:  # a body that is not JSON
        raise CallFailed("malformed_answer") from None


class OpenAiApi(LanguageModel):
    """One connection for all questions."""

    def __init__(self, retries: Retries | None = None) -> None:
        self._client = connect()
        self._model = os.environ.get(MODEL) or DEFAULT_MODEL
        super().__init__(f"openai-{self._model}", retries)

    def _complete(self, question: Question, name: str, schema: dict[str, Any], bill: Bill) -> str:
        with failures():
            completion = self._create(question, name, schema)
        usage = getattr(completion, "usage", None)
        self._count(bill, getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None))
        return _text(completion)

    def _create(self, question: Question, name: str, schema: dict[str, Any]) -> ChatCompletion:
        shown: list[ChatCompletionContentPartParam] = [{"type": "text", "text": question.material}]
        shown += [{"type": "image_url", "image_url": {"url": data_url(upload)}} for upload in question.pictures]
        return self._client.chat.completions.create(
            model=self._model,
            messages=[{"role": "system", "content": question.instructions}, {"role": "user", "content": shown}],
            response_format={
                "type": "json_schema",
                "json_schema": {"name": name, "strict": True, "schema": schema},
            },
            max_completion_tokens=ANSWER_TOKENS_MAX,
        )


def _text(completion: ChatCompletion) -> str:
    """The answer, if it was given freely and to its end."""
    if not isinstance(completion, ChatCompletion) or not completion.choices:
        raise CallFailed("malformed_answer")  # the SDK hands over whatever a proxy answers with status 200
    choice = completion.choices[0]
    if choice.message.refusal or choice.finish_reason == "content_filter":
        raise CallFailed("refused")
    if choice.finish_reason != "stop":
        raise CallFailed("truncated" if choice.finish_reason == "length" else "unfinished_answer")
    return choice.message.content or ""


def _status_failure(error: openai.APIStatusError) -> CallFailed:
    if error.code == "insufficient_quota":  # also a 429, but waiting does not fill an account
        return CallFailed("quota_used_up", unbilled=True)
    return http_failure(error.status_code, seconds(error.response.headers.get("retry-after")))


def data_url(upload: Upload) -> str:
    """The picture inside a URL, as chat completions and moderation take it."""
    return f"data:{upload.mime_type};base64,{base64.b64encode(upload.content).decode('ascii')}"
