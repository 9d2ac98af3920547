"""What OpenAI's chat completions answered, and what its SDK raised, in our words."""

from collections.abc import Iterator
from contextlib import contextmanager

import openai
from openai.types.chat import ChatCompletion

from tasks.providers.production.retries import CallFailed, http_failure, seconds

FORMAT_REFUSED = "answer_format_refused"
"""The server cannot hold its model to our form of an answer."""
FORMAT_STATUSES, FORMAT_WORDS = (400, 422, 501), ("response_format", "json_schema", "json_object", "grammar")


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


def _status_failure(error: openai.APIStatusError) -> CallFailed:
    if error.code == "insufficient_quota":  # also a 429, but waiting does not fill an account
        return CallFailed("quota_used_up", unbilled=True)
    if error.status_code in FORMAT_STATUSES and any(word in str(error.body).lower() for word in FORMAT_WORDS):
        return CallFailed(FORMAT_REFUSED, unbilled=True)
    headers = error.response.headers
    wait = seconds(headers.get("retry-after-ms")) / 1000 or seconds(headers.get("retry-after"))
    return http_failure(error.status_code, wait)


def inner_json(text: str) -> str:
    """The answer of a model that nothing held to JSON: without what it thought aloud and without a code fence."""
    said = text.rpartition("</think>")[2].strip()
    return said.removeprefix("```json").removeprefix("```").removesuffix("```").strip()
