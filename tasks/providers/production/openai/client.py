"""The connection to OpenAI, its failures in our words, and what its headers say about the next calls.

OPENAI_API_KEY; OPENAI_BASE_URL for another server (vLLM, llama.cpp, Ollama).
"""

import base64
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import openai
from openai.types.chat import ChatCompletion

from schemas.errors import MissingProvider
from tasks.providers.production.calls import CallFailed, http_failure, seconds
from tasks.providers.production.language_model import timeout_seconds
from tasks.providers.production.upload import Upload

KEY = "OPENAI_API_KEY"
FORMAT_REFUSED = "answer_format_refused"
"""The server cannot hold its model to our form of an answer."""
FORMAT_STATUSES, FORMAT_WORDS = (400, 422, 501), ("response_format", "json_schema", "json_object", "grammar")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")


def connect() -> openai.OpenAI:
    """A client that tries once; the repeats are ours. Raises MissingProvider without a key."""
    if not os.environ.get(KEY):
        raise MissingProvider(f"openai: {KEY} is not set; export a key in it, or choose another provider")
    base_url = os.environ.get("OPENAI_BASE_URL") or None
    return openai.OpenAI(base_url=base_url, timeout=timeout_seconds(), max_retries=0)


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


def _status_failure(error: openai.APIStatusError) -> CallFailed:
    if error.code == "insufficient_quota":  # also a 429, but waiting does not fill an account
        return CallFailed("quota_used_up", unbilled=True)
    if error.status_code in FORMAT_STATUSES and any(word in str(error.body).lower() for word in FORMAT_WORDS):
        return CallFailed(FORMAT_REFUSED, unbilled=True)
    headers = error.response.headers
    wait = seconds(headers.get("retry-after-ms")) / 1000 or seconds(headers.get("retry-after"))
    return http_failure(error.status_code, wait)


def answer_text(completion: ChatCompletion) -> str:
    """The answer, if it was given freely and to its end."""
    if not isinstance(completion, ChatCompletion) or not completion.choices:
        raise CallFailed("malformed_answer")  # the SDK hands over whatever a proxy answers with status 200
    if len(completion.choices) > 1:
        raise CallFailed("contradictory_answer")
    choice = completion.choices[0]
    if choice.message.refusal or choice.finish_reason == "content_filter":
        raise CallFailed("refused")
    if choice.finish_reason != "stop":
        raise CallFailed("truncated" if choice.finish_reason == "length" else "unfinished_answer")
    return choice.message.content or ""


def data_url(upload: Upload) -> str:
    """The image inside a URL, as chat completions and moderation take it."""
    return f"data:{upload.mime_type};base64,{base64.b64encode(upload.content).decode('ascii')}"


class Room(NamedTuple):
    """What a service still takes."""

    calls: float
    """Calls now."""
    gap_seconds: float
    """Until it takes one more."""


def room(headers: Mapping[str, str], tokens_used: int | None) -> Room | None:
    """The tighter of the `x-ratelimit-*` limits on requests and on tokens; None when the headers do not say.

    A limit refills evenly: `reset` is the time until nothing of it is used.
    """
    found = [_room(headers, "requests", 1)]
    if tokens_used:
        found.append(_room(headers, "tokens", tokens_used))
    said = [each for each in found if each]
    return Room(min(each.calls for each in said), max(each.gap_seconds for each in said)) if said else None


def _room(headers: Mapping[str, str], what: str, a_call: int) -> Room | None:
    try:
        limit, left = (float(headers[f"x-ratelimit-{name}-{what}"]) for name in ("limit", "remaining"))
        reset = span_seconds(headers[f"x-ratelimit-reset-{what}"])
    except (KeyError, ValueError):
        return None
    used = limit - left
    return Room(left / a_call, reset * a_call / used if used > 0 else 0.0)


def span_seconds(text: str) -> float:
    """Seconds of `6m0s`, `120ms` or `1.5`. Raises ValueError for anything else."""
    text = text.strip()
    parts = _SPAN.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    return float(text)
