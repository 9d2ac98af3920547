"""How servers say that an answer ended, was declined or failed: one table over all vendors.

In: the reason, content or error of a reply. Out: its text and state, or `CallFailed`. A model or vendor *declines* an
item (state and failure `refused`): another item may be answered. A server *rejects* a request (a key, a format, a
setting): it would reject any item. Gateways pass on the words of the server behind them, so a vendor's protocol does
not tell which words may come. Words are compared in lower case, with `_` between them: a new one is a word in one of
these tables.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from tasks.providers.capabilities import Reply, ReplyState
from tasks.providers.production.calls import FORMAT_UNSUPPORTED, REFUSED_CALL, CallFailed, http_failure, waiting_seconds
from tasks.runtime.thinking import split_thinking

REPLY_CHARACTERS_MAX = 400_000
"""A longer text is cut and counts as truncated, whatever the server says about it."""
_REASONS_BY_STATE: dict[ReplyState, str] = {
    "complete": "stop eos eos_token end_turn stop_sequence complete completed",
    "truncated": "length max_tokens max_output_tokens max_completion_tokens max_length model_length token_limit "
    "error_limit model_context_window_exceeded",
    "refused": "refusal content_filter content_filtered guardrail_intervened sensitive error_toxic safety recitation "
    "blocklist prohibited_content spii model_armor image_safety image_prohibited_content image_recitation",
}
_STATE_BY_REASON = {word: state for state, words in _REASONS_BY_STATE.items() for word in words.split()}
"""Reason for which an answer ended -> its state. Any other, such as a call of a tool, is a failure of its name."""
_TOOL_REASONS = ("tool_calls", "tool_use", "function_call")
_REASON_NAME = re.compile(r"[a-z0-9_]{1,40}")
"""Reasons that may be repeated in tables: words of a program, not text that may quote the item."""
_ERROR_CODES = re.compile(r'"(?:code|type|status|reason)": "([^"]+)"')
_DECLINE_CODES = {
    "content_filter",
    "content_policy_violation",
    "invalid_prompt",
    "moderation_blocked",
    "responsibleaipolicyviolation",
    "data_inspection_failed",
    "datainspectionfailed",
}
"""Codes of errors by which OpenAI, Azure and Alibaba decline an item."""
_DECLINE_PHRASES = (
    "blocked by content filtering policy",  # Anthropic
    "content management policy",  # Azure
    "contentpolicyviolationerror",  # any of them behind LiteLLM
    "content violates usage guidelines",  # xAI, with status 403
    "content exists risk",  # DeepSeek
    '"flagged_input": ',  # OpenRouter, with status 403
)
"""Texts of errors by which others do."""
_FORMAT_STATUSES = (400, 422, 501)
"""HTTP statuses of servers that cannot answer in the format of a reply that was asked for."""
_FORMAT_PHRASES = (
    *("response_format", "json_schema", "json_object", "grammar"),  # servers with chat completions
    *("output_config", "output_format", "structured output"),  # Anthropic
    *("json mode", "response_mime_type", "response_schema", "response_json_schema"),  # Google
)
"""Texts of their errors, in which they name what they cannot do."""
_RETRY_DELAYS = re.compile(r'"retrydelay": "([^"]+)"')
"""How long Google asks to wait, in the RetryInfo of an error."""
_ABOUT_TEMPERATURE = re.compile(r'"(?:param|message|detail)": "(?:[^"\\]|\\.)*\btemperature\b')
"""An error that names the setting, which some models have only one value of."""
_WORDS_BY_STATUS = {
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
_STATUS_BY_WORD = {word: status for status, words in _WORDS_BY_STATUS.items() for word in words.split()}
"""Word for an error -> the HTTP status that it would have had."""


class MessageContent(NamedTuple):
    """The content of a message."""

    text: str
    refusal: str = ""
    """Words of a model in place of an answer that it declines to give, where the protocol has a part for it."""
    thinking: str = ""


def message_content(content: object) -> MessageContent:
    """Content given as a text or as a list of parts. Raises CallFailed for another kind of part, such as an image."""
    if content is None or isinstance(content, str):
        return MessageContent(content or "")
    if not isinstance(content, Sequence):
        raise CallFailed("malformed_answer")
    pieces: dict[str, list[str]] = {"text": [], "refusal": [], "thinking": []}
    for part in content:
        # Some servers list bare texts.
        fields = part if isinstance(part, dict) else {"type": "text", "text": part}
        kind = str(fields.get("type")).removeprefix("output_")
        if kind == "reasoning":
            kind = "thinking"
        if kind not in pieces:
            raise CallFailed("malformed_answer")
        value = fields.get(kind, fields.get("text"))
        # Thoughts may be a list of parts themselves.
        pieces[kind].append(value if isinstance(value, str) else "".join(message_content(value)))
    return MessageContent(
        text="".join(pieces["text"]), refusal="".join(pieces["refusal"]), thinking="".join(pieces["thinking"])
    )


def state_of(reason: object, text: str, tool_calls: object = None) -> ReplyState:
    """State of an answer that ended for a reason of the server.

    `tool_calls` are the calls in the answer, if any. Raises CallFailed with the reason's name for one that is in no
    table.
    """
    word = _word(reason)
    if word in _STATE_BY_REASON:
        return _STATE_BY_REASON[word]
    # Some servers give no reason, or one of a tool, for a whole answer that calls no tool.
    if word in ("", *_TOOL_REASONS) and not tool_calls and text.strip():
        return "complete"
    raise CallFailed(f"unfinished_answer ({word})" if _REASON_NAME.fullmatch(word) else "unfinished_answer")


def is_declined(reason: object) -> bool:
    """Whether an answer that ended for this reason was declined."""
    return _STATE_BY_REASON.get(_word(reason)) == "refused"


def reply(text: object, state: ReplyState, output_tokens: int | None) -> Reply:
    """A reply with cleaned text, without what the model thought before it; a complete one without text is empty.

    Raises CallFailed if `text` is no str.
    """
    if not isinstance(text, str):
        raise CallFailed("malformed_answer")
    # Halves of characters, which a stream that was cut may end with, cannot be stored.
    valid = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    _, clean = split_thinking(valid)
    if len(clean) > REPLY_CHARACTERS_MAX:
        return Reply(clean[:REPLY_CHARACTERS_MAX], "truncated", output_tokens)
    if state == "complete" and not clean.strip():
        state = "empty"
    return Reply(clean, state, output_tokens)


def failure_of(status: int, body: object, wait_seconds: float = 0.0) -> CallFailed:
    """The failure for an error of a server: HTTP status, and body, which may be anything that JSON can hold.

    `wait_seconds`: how long the headers ask to wait.
    """
    body_text = json.dumps(body, default=str, ensure_ascii=False).lower()
    codes = {_word(code) for code in _ERROR_CODES.findall(body_text)}
    # The item is declined. Azure charges for the prompt, Anthropic for what it withholds.
    if codes & _DECLINE_CODES or any(phrase in body_text for phrase in _DECLINE_PHRASES):
        return CallFailed(REFUSED_CALL)
    # Its status is 429, like that of a limit, but retries do not help.
    if "insufficient_quota" in codes:
        return CallFailed("quota_used_up", unbilled=True)
    # A wrong key is a 400 at Google.
    if "api_key_invalid" in codes:
        return CallFailed("key_refused", unbilled=True)
    if status in _FORMAT_STATUSES and any(phrase in body_text for phrase in _FORMAT_PHRASES):
        return CallFailed(FORMAT_UNSUPPORTED, unbilled=True)
    if status in (400, 422) and _ABOUT_TEMPERATURE.search(body_text):
        return CallFailed("temperature_refused", unbilled=True)
    delays_seconds = [waiting_seconds(delay) for delay in _RETRY_DELAYS.findall(body_text)]
    return http_failure(status, max([0.0, wait_seconds, *delays_seconds]))


def failure_in(body: object) -> CallFailed:
    """The failure for a body without an answer that came with status 200: by the code of an error in it, if it has one.

    Else it is malformed.
    """
    fields = body if isinstance(body, dict) else {}
    error = fields["error"] if isinstance(fields.get("error"), dict) else fields
    status = 0
    for key in ("code", "status", "type"):
        word = _word(error.get(key))
        stated = int(word) if word.isdecimal() else _STATUS_BY_WORD.get(word, 0)
        if 400 <= stated < 600:
            status = stated
            break
    failure = failure_of(status, error)
    return failure if status or failure.reason == REFUSED_CALL else CallFailed("malformed_answer")


def _word(name: Any) -> str:
    """A word of a vendor in lower case, with `_` for blanks and dashes; empty for null."""
    if name is None:
        return ""
    return re.sub(r"[\s-]+", "_", str(getattr(name, "value", name)).strip().lower())
