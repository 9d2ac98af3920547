"""The connection to Gemini, what it answered, and its failures in our words.

GEMINI_API_KEY; CURATE_GEMINI_BASE_URL for another server.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2  # the SDK lets its transport's errors through
from google import genai
from google.genai import errors, types

from schemas.errors import MissingProvider
from tasks.providers.production.calls import CallFailed, http_failure, seconds
from tasks.providers.production.language_model import timeout_seconds

KEY, BASE_URL = "GEMINI_API_KEY", "CURATE_GEMINI_BASE_URL"
_BROKEN_OFF = {
    types.FinishReason.MAX_TOKENS: "truncated",
    types.FinishReason.OTHER: "unfinished_answer",
    types.FinishReason.LANGUAGE: "unsupported_language",
    types.FinishReason.MALFORMED_RESPONSE: "malformed_answer",
}
"""Why an answer is not whole; every other reason is one of Google's content rules."""


def connect() -> genai.Client:
    """A client that tries once, which is its default. Raises MissingProvider without a key."""
    key = os.environ.get(KEY)
    if not key:
        raise MissingProvider(f"gemini: {KEY} is not set; export a key in it, or choose another provider")
    options = types.HttpOptions(base_url=os.environ.get(BASE_URL) or None, timeout=int(timeout_seconds() * 1000))
    return genai.Client(api_key=key, vertexai=False, http_options=options)


@contextmanager
def failures() -> Iterator[None]:
    """The exceptions of the SDK and its transport as CallFailed."""
    try:
        yield
    except httpx2.TimeoutException:
        raise CallFailed("timed_out", may_pass=True) from None
    except httpx2.TransportError:
        raise CallFailed("connection_failed", may_pass=True) from None
    except errors.APIError as error:
        raise http_failure(error.code, _asked_wait(error)) from None
    except (ValueError, KeyError):  # a body that is not JSON, or not shaped like an answer
        raise CallFailed("malformed_answer") from None


def _asked_wait(error: errors.APIError) -> float:
    """Seconds from the Retry-After header, or from the RetryInfo that Google puts into the body."""
    headers = getattr(error.response, "headers", None) or {}
    body = error.details if isinstance(error.details, dict) else {}
    details = (body.get("error") or {}).get("details") or []
    delays = [seconds(detail.get("retryDelay")) for detail in details if isinstance(detail, dict)]
    return max([seconds(headers.get("retry-after")), *delays])


def tokens_used(response: types.GenerateContentResponse) -> tuple[int | None, int | None]:
    """Tokens sent and answered, thinking included; None where the service did not count."""
    used = response.usage_metadata
    if used is None:
        return None, None
    return used.prompt_token_count, (used.candidates_token_count or 0) + (used.thoughts_token_count or 0)


def answer_text(response: types.GenerateContentResponse) -> str:
    """The answer, if it was given freely and to its end."""
    if response.prompt_feedback and response.prompt_feedback.block_reason:
        raise CallFailed("refused")
    if not response.candidates:
        raise CallFailed("malformed_answer")
    if len(response.candidates) > 1:
        raise CallFailed("contradictory_answer")
    reason = response.candidates[0].finish_reason
    if reason != types.FinishReason.STOP:
        raise CallFailed(_BROKEN_OFF.get(reason, "refused") if reason else "unfinished_answer")
    return response.text or ""
