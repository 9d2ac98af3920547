"""Anthropic's replies and errors, as ours."""

from collections.abc import Iterator
from contextlib import contextmanager

import anthropic
import httpx2  # the SDK raises its transport's errors while a body is read
from anthropic.types import Message

from tasks.providers.capabilities import Reply, ReplyState
from tasks.providers.production.calls import FORMAT_REFUSED, CallFailed, http_failure, seconds
from tasks.providers.production.chat_model import reply

_STATES: dict[str | None, ReplyState] = {
    "end_turn": "complete",
    "stop_sequence": "complete",
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "refusal": "refused",
}
"""Stop reason -> state; every other one means that the model expects something more."""
_FORMAT_WORDS = ("output_config", "output_format", "structured output")
"""What a refusal of a reply's shape names: models before Claude 4.5 have none."""


def said(message: object) -> Reply:
    """The reply in a message. Raises CallFailed for one that is not usable."""
    if not isinstance(message, Message) or not isinstance(message.content, list):
        raise CallFailed("malformed_answer")  # the SDK returns any body that a proxy sends with status 200
    if message.stop_reason not in _STATES:
        raise CallFailed("unfinished_answer")
    text = "".join(block.text for block in message.content if block.type == "text")
    return reply(text, _STATES[message.stop_reason], tokens_used(message)[1])


def tokens_used(message: object) -> tuple[int | None, int | None]:
    """Input and output tokens, thinking included; None where the service did not report them."""
    used = getattr(message, "usage", None)
    return getattr(used, "input_tokens", None), getattr(used, "output_tokens", None)


@contextmanager
def failures() -> Iterator[None]:
    """Raises the exceptions of the SDK and its transport as CallFailed."""
    try:
        yield
    except anthropic.APITimeoutError:
        raise CallFailed("timed_out", may_pass=True) from None
    except anthropic.APIConnectionError as error:
        unsent = isinstance(error.__cause__, httpx2.ConnectError)  # nothing was sent, so it costs nothing
        raise CallFailed("connection_failed", may_pass=True, unbilled=unsent) from None
    except anthropic.APIStatusError as error:
        if error.status_code == 400 and any(word in str(error.body).lower() for word in _FORMAT_WORDS):
            raise CallFailed(FORMAT_REFUSED, unbilled=True) from None
        raise http_failure(error.status_code, seconds(error.response.headers.get("retry-after"))) from None
    except (httpx2.TransportError, httpx2.DecodingError):
        raise CallFailed("connection_failed", may_pass=True) from None
    except (anthropic.APIError, ValueError):  # a body that is not JSON, or not shaped like an answer
        raise CallFailed("malformed_answer") from None
