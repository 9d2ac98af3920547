"""Google's Gemini: pictures in, one JSON object out.

GEMINI_API_KEY; CURATE_GEMINI_BASE_URL for another server; CURATE_GEMINI_MODEL for another model.
"""

import os
from typing import Any

import httpx2  # the SDK lets its transport's errors through
from google import genai
from google.genai import errors, types

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

KEY, BASE_URL, MODEL = "GEMINI_API_KEY", "CURATE_GEMINI_BASE_URL", "CURATE_GEMINI_MODEL"
DEFAULT_MODEL = "gemini-3.8-flash"
_BROKEN_OFF = {
    types.FinishReason.MAX_TOKENS: "truncated",
    types.FinishReason.OTHER: "unfinished_answer",
    types.FinishReason.LANGUAGE: "unsupported_language",
    types.FinishReason.MALFORMED_RESPONSE: "malformed_answer",
}
"""Why an answer is not whole; every other reason is one of Google's content rules."""


class GeminiApi(LanguageModel):
    """One connection for all questions."""

    def __init__(self, retries: Retries | None = None) -> None:
        key = os.environ.get(KEY)
        if not key:
            raise MissingProvider(f"gemini: {KEY} is not set; export a key in it, or choose another provider")
        self._model = os.environ.get(MODEL) or DEFAULT_MODEL
        options = types.HttpOptions(
            base_url=os.environ.get(BASE_URL) or None,
            timeout=int(TIMEOUT_SECONDS * 1000),
        )
        self._client = genai.Client(api_key=key, vertexai=False, http_options=options)
        super().__init__(f"google-{self._model}", retries)

    def _complete(self, question: Question, name: str, schema: dict[str, Any], bill: Bill) -> str:
        try:
            response = self._generate(question, schema)
            if used := response.usage_metadata:
                answered = (used.candidates_token_count or 0) + (used.thoughts_token_count or 0)
                self._count(bill, used.prompt_token_count, answered)
            return _text(response)
        except httpx2.TimeoutException:
            raise CallFailed("timed_out", may_pass=True) from None
        except httpx2.TransportError:
            raise CallFailed("connection_failed", may_pass=True) from None
        except errors.APIError as error:
            raise http_failure(error.code, _asked_wait(error)) from None
        except ValueError:  # a body that is not JSON, or not shaped like an answer
            raise CallFailed("malformed_answer") from None

    def _generate(self, question: Question, schema: dict[str, Any]) -> types.GenerateContentResponse:
        pictures = [types.Part.from_bytes(data=p.content, mime_type=p.mime_type) for p in question.pictures]
        return self._client.models.generate_content(
            model=self._model,
            contents=types.Content(role="user", parts=[types.Part.from_text(text=question.material), *pictures]),
            config=types.GenerateContentConfig(
                system_instruction=question.instructions,
                response_mime_type="application/json",
                response_json_schema=schema,
                max_output_tokens=ANSWER_TOKENS_MAX,
            ),
        )


def _text(response: types.GenerateContentResponse) -> str:
    """The answer, if it was given freely and to its end."""
    if response.prompt_feedback and response.prompt_feedback.block_reason:
        raise CallFailed("refused")
    if not response.candidates:
        raise CallFailed("malformed_answer")
    reason = response.candidates[0].finish_reason
    if reason != types.FinishReason.STOP:
        raise CallFailed(_BROKEN_OFF.get(reason, "refused") if reason else "unfinished_answer")
    return response.text or ""


def _asked_wait(error: errors.APIError) -> float:
    """Seconds from the Retry-After header, or from the RetryInfo that Google puts into the body."""
    headers = getattr(error.response, "headers", None) or {}
    body = error.details if isinstance(error.details, dict) else {}
    details = (body.get("error") or {}).get("details") or []
    delays = [seconds(detail.get("retryDelay")) for detail in details if isinstance(detail, dict)]
    return max([seconds(headers.get("retry-after")), *delays])
