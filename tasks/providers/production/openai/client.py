"""The connection to OpenAI, its replies and errors as ours, and its rate-limit headers.

OPENAI_API_KEY; OPENAI_BASE_URL for another server (vLLM, llama.cpp, Ollama).
"""

import base64
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import httpx2
import openai
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from openai.types.chat.chat_completion import Choice

from tasks.providers.capabilities import Reply
from tasks.providers.production.calls import CallFailed, waiting_seconds
from tasks.providers.production.language_model import key_in, timeout_seconds
from tasks.providers.production.replies import failure_in, failure_of, message_content, reply, state_of
from tasks.providers.upload import Upload

OPENAI_KEY_VARIABLE, OPENAI_BASE_URL_VARIABLE = "OPENAI_API_KEY", "OPENAI_BASE_URL"
OPENAI_ADDRESS = "https://api.openai.com/v1"
"""Given explicitly, so that OPENAI_BASE_URL cannot redirect prompts to a server that a models file does not name."""
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")


def openai_client_at(key: str, base_url: str) -> openai.OpenAI:
    """A client without retries of its own; without a `base_url`, of OpenAI itself."""
    return openai.OpenAI(api_key=key, base_url=base_url or OPENAI_ADDRESS, timeout=timeout_seconds(), max_retries=0)


def openai_client() -> openai.OpenAI:
    """A client of the server that the environment names. Raises MissingProvider without a key."""
    return openai_client_at(key_in(OPENAI_KEY_VARIABLE), os.environ.get(OPENAI_BASE_URL_VARIABLE, ""))


@contextmanager
def sdk_failures() -> Iterator[None]:
    """Raises the SDK's exceptions as CallFailed."""
    try:
        yield
    except openai.APITimeoutError:
        raise CallFailed("timed_out", may_pass=True) from None
    except openai.APIConnectionError as error:
        unsent = isinstance(error.__cause__, httpx2.ConnectError)  # nothing was sent, so it costs nothing
        raise CallFailed("connection_failed", may_pass=True, unbilled=unsent) from None
    except openai.APIStatusError as error:
        raise _status_failure(error) from None
    except ValueError:  # a body that is not JSON
        raise CallFailed("malformed_answer") from None


def _status_failure(error: openai.APIStatusError) -> CallFailed:
    headers = error.response.headers
    wait = waiting_seconds(headers.get("retry-after-ms")) / 1000 or waiting_seconds(headers.get("retry-after"))
    return failure_of(error.status_code, error.body, wait)


def said(completion: object) -> Reply:
    """The reply in a completion. Raises CallFailed for one that is not usable."""
    if not isinstance(completion, ChatCompletion):
        raise CallFailed("malformed_answer")  # the SDK returns any body that a proxy sends with status 200
    if not completion.choices:
        raise failure_in(completion.model_extra)
    if len(completion.choices) > 1:
        raise CallFailed("contradictory_answer")
    choice = completion.choices[0] if isinstance(completion.choices, list) else None
    if not isinstance(choice, Choice) or not isinstance(choice.message, ChatCompletionMessage):
        raise CallFailed("malformed_answer")
    if error := (choice.model_extra or {}).get("error"):  # OpenRouter's, of the server behind it
        raise failure_in(error)
    message = choice.message
    content, (_, tokens) = message_content(message.content), tokens_used(completion)
    if refusal := message.refusal or content.refusal:
        return reply(refusal, "refused", tokens)
    return reply(content.text, state_of(choice.finish_reason, content.text, message.tool_calls), tokens)


def tokens_used(completion: object) -> tuple[int | None, int | None]:
    """Input and output tokens, thinking included; None where the service did not report them."""
    used = getattr(completion, "usage", None)
    return getattr(used, "prompt_tokens", None), getattr(used, "completion_tokens", None)


def data_url(upload: Upload) -> str:
    """The image as a data URL, the form that chat completions and moderation take."""
    return f"data:{upload.mime_type};base64,{base64.b64encode(upload.content).decode('ascii')}"


def rate_limit(headers: Mapping[str, str], tokens_used: int | None) -> tuple[float, float] | None:
    """Calls still allowed now, and seconds until one more is; None when the headers do not say.

    The stricter of the `x-ratelimit-*` limits on requests and on tokens. A limit refills evenly: `reset` is the time
    until it is full again.
    """
    limits = []
    for what, a_call in (("requests", 1), ("tokens", tokens_used)):
        try:
            limit, remaining = (float(headers[f"x-ratelimit-{name}-{what}"]) for name in ("limit", "remaining"))
            reset = span_seconds(headers[f"x-ratelimit-reset-{what}"])
        except (KeyError, ValueError):
            continue
        if a_call:
            used = limit - remaining
            limits.append((remaining / a_call, reset * a_call / used if used > 0 else 0.0))
    return (min(calls for calls, _ in limits), max(gap for _, gap in limits)) if limits else None


def span_seconds(text: str) -> float:
    """Seconds of `6m0s`, `120ms` or `1.5`. Raises ValueError for anything else."""
    text = text.strip()
    parts = _SPAN.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    return float(text)
