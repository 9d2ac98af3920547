"""Thinking of a model at the head of its text, apart from its answer."""

import re

THINKING_TAGS = {f"<{name}>": f"</{name}>" for name in ("think", "thinking")}
_LOST_TAG = re.compile(r"(?<!`)</(?:think|thinking)>[ \t]*(?:\n|$)")
"""A closing tag at the end of its line, whose opening tag the server's template took."""
_FENCE = "```"


def split_thinking(text: str) -> tuple[str | None, str]:
    """(thinking or None, answer) of a model's text.

    Thinking stands at the head. Without a closing tag all is thinking, as it was cut off. Tags in the middle of an
    answer are what it is about, and stay.
    """
    if "think>" not in text and "thinking>" not in text:
        return None, text
    head = text.lstrip()
    for opening, closing in THINKING_TAGS.items():
        if head.startswith(opening):
            thinking, _, answer = head.removeprefix(opening).partition(closing)
            return thinking.strip() or None, answer.lstrip()
    lost = _LOST_TAG.search(text)
    before = text[: lost.start()] if lost else ""
    if lost is None or any(tag in before for tag in THINKING_TAGS) or before.count(_FENCE) % 2:
        return None, text
    return before.strip() or None, text[lost.end() :].lstrip()
