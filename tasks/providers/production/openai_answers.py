"""What OpenAI's chat completions answered, and what its SDK raised, in our words."""

from collections.abc import Iterator
from contextlib import contextmanager

import openai
from openai.types.chat import ChatCompletion

from tasks.providers.production.retries import CallFailed, http_failure, seconds


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
