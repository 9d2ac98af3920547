"""FastChat's cleaning of votes and chats, reimplemented from its description to compare counts.

The outcome of a line that upstream can read: `monitor/clean_battle_data.py` (one outcome a vote, the first rule that
applies) and `monitor/clean_chat_data.py`. Three of its errors are not reproduced: it stops at a broken line, at content
that is not text, and at an empty result.
"""

import re
from typing import Any

KEPT, INVALID, NAMED = "kept", "invalid", "named_battle"
VOTES = {"leftvote", "rightvote", "tievote", "bothbad_vote"}
IDENTITY = (
    """
vicuna, lmsys, koala, uc berkeley, open assistant, laion, chatglm, chatgpt, gpt-4, openai, anthropic, claude, bard,
palm, lamda, google, gemini, llama, qianwan, qwen, alibaba, mistral, zhipu, keg lab, 01.ai, ai2, tülu, tulu, deepseek,
hermes, cohere, dbrx, databricks
""".replace("\n", " ")
    .strip()
    .split(", ")
)
NETWORK_ERROR = "network error due to high traffic. please regenerate or refresh this page."
ERRORS = [
    NETWORK_ERROR,
    "$moderation$ your input violates our content moderation guidelines.",
    "api request error. please increase the number of max tokens.",
    "**api request error** reason: the response was blocked.",
    "**api request error**",
]
CURSORS = ["▌", '<span class="cursor">']


def is_text_only(record: dict[str, Any]) -> bool:
    """Whether upstream can read the line at all: every content is a text or null."""
    states = record.get("states") or [record.get("state")]
    return all(
        isinstance(state, dict)
        and isinstance(state.get("messages"), list)
        and all(isinstance(m, list) and len(m) == 2 and (m[1] is None or type(m[1]) is str) for m in state["messages"])
        for state in states
    )


def battle_outcome(record: dict[str, Any], excluded: frozenset[str] = frozenset()) -> str:
    """The outcome of a vote: kept, invalid, or the rule that drops it."""
    states, shown = record["states"], [re.sub(r"^<h3>.*?: |</h3>\n$", "", name) for name in record["models"]]
    hidden = [state["model_name"] for state in states]
    if (shown[0] == "") != (shown[1] == ""):
        return INVALID
    anonymous = shown[0] in ("", "Model A")
    if not anonymous and any(name not in public for name, public in zip(hidden, shown, strict=True)):
        return INVALID
    if states[0]["offset"] >= len(states[0]["messages"]):
        return INVALID
    texts = [text for state in states for _, text in state["messages"][state["offset"] :]]
    joined = "".join(text or "" for text in texts).lower()
    if not all(texts):
        return "empty_message"
    if any(word in joined for word in IDENTITY):
        return "leaked_identity"
    if any(error in joined for error in ERRORS):
        return "service_error"
    if any(cursor in joined for cursor in CURSORS):
        return "unfinished"
    if not {renamed(name, record["tstamp"]) for name in hidden}.isdisjoint(excluded):
        return "excluded_model"
    return KEPT if anonymous else NAMED


def chat_outcome(record: dict[str, Any]) -> str:
    """The outcome of a chat line."""
    state = record["state"]
    texts = [text for _, text in state["messages"][state["offset"] :]]
    if not texts or not all(isinstance(text, str) for text in texts) or not isinstance(record["model"], str):
        return INVALID
    return "service_error" if NETWORK_ERROR in "".join(texts).lower() else KEPT


def renamed(model: str, tstamp: float) -> str:
    """The name upstream publishes."""
    if model in ("gpt-4", "gpt-3.5-turbo"):
        return f"{model}-0613" if tstamp > 1687849200 else f"{model}-0314"
    return {
        "bard": "palm-2",
        "claude-v1": "claude-1",
        "claude-instant-v1": "claude-instant-1",
        "oasst-sft-1-pythia-12b": "oasst-pythia-12b",
        "claude-2": "claude-2.0",
        "StripedHyena-Nous-7B": "stripedhyena-nous-7b",
        "gpt-4-turbo": "gpt-4-1106-preview",
        "gpt-4-0125-assistants-api": "gpt-4-turbo-browsing",
    }.get(model, model)
