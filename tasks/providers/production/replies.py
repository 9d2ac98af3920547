"""How servers say that an answer ended, was refused or failed: one table over all vendors.

Gateways pass on the words of the server behind them, so a vendor's protocol does not tell which words may come.
Words are compared in lower case, with `_` between them.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from tasks.providers.capabilities import Reply, ReplyState
from tasks.providers.production.calls import FORMAT_REFUSED, REFUSED, CallFailed, http_failure, waiting_seconds
from tasks.runtime.thinking import split_thinking

CHARACTERS_MAX = 400_000
"""A longer text is cut and counts as truncated, whatever the server says about it."""
_WORDS: dict[ReplyState, str] = {
    "complete": "stop eos eos_token end_turn stop_sequence complete completed",
    "truncated": "length max_tokens max_output_tokens max_completion_tokens max_length model_length token_limit "
    "error_limit model_context_window_exceeded",
    "refused": "refusal content_filter content_filtered guardrail_intervened sensitive error_toxic safety recitation "
    "blocklist prohibited_content spii model_armor image_safety image_prohibited_content image_recitation",
}
_STATES = {word: state for state, words in _WORDS.items() for word in words.split()}
"""Reason for which an answer ended -> its state. Any other, such as a call of a tool, is a failure of its name."""
_OF_TOOLS = ("tool_calls", "tool_use", "function_call")
_NAME = re.compile(r"[a-z0-9_]{1,40}")
_CODES = re.compile(r'"(?:code|type|status|reason)": "([^"]+)"')
_REFUSALS = {
    "content_filter",
    "content_policy_violation",
    "invalid_prompt",
    "moderation_blocked",
    "responsibleaipolicyviolation",
    "data_inspection_failed",
    "datainspectionfailed",
}
"""Codes of errors by which OpenAI, Azure and Alibaba decline what is asked."""
_REFUSAL_PHRASES = (
    "blocked by content filtering policy",  # Anthropic
    "content management policy",  # Azure
    "contentpolicyviolationerror",  # any of them behind LiteLLM
    "content violates usage guidelines",  # xAI, with status 403
    "content exists risk",  # DeepSeek
    '"flagged_input": ',  # OpenRouter, with status 403
)
_FORMAT_STATUSES = (400, 422, 501)
_FORMAT_WORDS = (
    *("response_format", "json_schema", "json_object", "grammar"),  # servers with chat completions
    *("output_config", "output_format", "structured output"),  # Anthropic
    *("json mode", "response_mime_type", "response_schema", "response_json_schema"),  # Google
)
"""Words of an error about a reply's shape."""
_DELAYS = re.compile(r'"retrydelay": "([^"]+)"')
"""How long Google asks to wait, in the RetryInfo of an error."""
_ABOUT_TEMPERATURE = re.compile(r'"(?:param|message|detail)": "(?:[^"\\]|\\.)*\btemperature\b')
_ERROR_WORDS = {
    400: "invalid_request_error invalid_argument bad_request",
    401: "authentication_error invalid_api_key unauthenticated unauthorized",
    402: "billing_error insufficient_credits",
    403: "permission_error permission_denied forbidden",
    404: "not_found_error model_not_found not_found",
    413: "request_too_large",
    429: "insufficient_quota rate_limit_error rate_limit_exceeded resource_exhausted too_many_requests",
    500: "api_error server_error internal_server_error internal_error internal",
    503: "overloaded_error overloaded unavailable service_unavailable",
    504: "timeout_error timeout deadline_exceeded",
}
_STATUS_OF = {word: status for status, words in _ERROR_WORDS.items() for word in words.split()}
"""Word for an error -> the HTTP status that it would have had."""


class MessageContent(NamedTuple):
    """The content of a message."""

    text: str
    refusal: str = ""
    thinking: str = ""


def message_content(content: object) -> MessageContent:
    """Content given as a text or as a list of parts. Raises CallFailed for another kind of part, such as an image."""
    if content is None or isinstance(content, str):
        return MessageContent(content or "")
    if not isinstance(content, Sequence):
        raise CallFailed("malformed_answer")
    texts: dict[str, list[str]] = {"text": [], "refusal": [], "thinking": []}
    for part in content:
        fields = part if isinstance(part, dict) else {"type": "text", "text": part}
        kind = str(fields.get("type")).removeprefix("output_")
        kind = "thinking" if kind == "reasoning" else kind
        if kind not in texts:
            raise CallFailed("malformed_answer")
        inner = fields.get(kind, fields.get("text"))
        texts[kind].append(inner if isinstance(inner, str) else "".join(message_content(inner)))
    return MessageContent(*("".join(pieces) for pieces in texts.values()))


def state_of(reason: object, text: str, tool_calls: object = None) -> ReplyState:
    """State of an answer that ended for this reason; a text without a reason, or with calls of no tool, is complete.

    Raises CallFailed with the reason's name for every other one.
    """
    word = _word(reason)
    if word in _STATES:
        return _STATES[word]
    if word in ("", *_OF_TOOLS) and not tool_calls and text.strip():
        return "complete"
    raise CallFailed(f"unfinished_answer ({word})" if _NAME.fullmatch(word) else "unfinished_answer")


def is_refusal(reason: object) -> bool:
    """Whether an answer that ended for this reason was declined."""
    return _STATES.get(_word(reason)) == "refused"


def reply(text: object, state: ReplyState, output_tokens: int | None) -> Reply:
    """A reply with cleaned text, without what the model thought before it; a complete one without text is empty.

    Raises CallFailed for text that is none.
    """
    if not isinstance(text, str):
        raise CallFailed("malformed_answer")
    clean = split_thinking(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))[1]
    if len(clean) > CHARACTERS_MAX:
        return Reply(clean[:CHARACTERS_MAX], "truncated", output_tokens)
    if state == "complete" and not clean.strip():
        state = "empty"
    return Reply(clean, state, output_tokens)


def failure_of(status: int, body: object, wait_seconds: float = 0.0) -> CallFailed:
    """The failure for an error of a server, whose body may be anything that JSON can hold."""
    dumped = json.dumps(body, default=str, ensure_ascii=False).lower()
    codes = {_word(code) for code in _CODES.findall(dumped)}
    if codes & _REFUSALS or any(phrase in dumped for phrase in _REFUSAL_PHRASES):
        return CallFailed(REFUSED)  # Azure charges for the prompt, Anthropic for what it withholds
    if "insufficient_quota" in codes:  # also a 429, but retries do not help
        return CallFailed("quota_used_up", unbilled=True)
    if "api_key_invalid" in codes:  # a wrong key is a 400 at Google
        return CallFailed("key_refused", unbilled=True)
    if status in _FORMAT_STATUSES and any(word in dumped for word in _FORMAT_WORDS):
        return CallFailed(FORMAT_REFUSED, unbilled=True)
    if status in (400, 422) and _ABOUT_TEMPERATURE.search(dumped):
        return CallFailed("temperature_refused", unbilled=True)
    return http_failure(status, max(wait_seconds, *map(waiting_seconds, _DELAYS.findall(dumped)), 0.0))


def failure_in(body: object) -> CallFailed:
    """The failure for a body without an answer that came with status 200: by the code of an error in it, if it has one.

    Else it is malformed.
    """
    fields = body if isinstance(body, dict) else {}
    error = fields["error"] if isinstance(fields.get("error"), dict) else fields
    words = [_word(error.get(key)) for key in ("code", "status", "type")]
    statuses = [int(word) if word.isdecimal() else _STATUS_OF.get(word, 0) for word in words]
    status = next((status for status in statuses if 400 <= status < 600), 0)
    failure = failure_of(status, error)
    return failure if status or failure.reason == REFUSED else CallFailed("malformed_answer")


def _word(name: Any) -> str:
    """A word of a vendor in lower case, with `_` for blanks and dashes; empty for null."""
    if name is None:
        return ""
    return re.sub(r"[\s-]+", "_", str(getattr(name, "value", name)).strip().lower())
