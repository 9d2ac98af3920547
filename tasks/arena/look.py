"""How a conversation looks on the page: messages of a chat window, hidden names, what may be clicked.

Markdown of strangers made harmless: its HTML and its images are shown as text.

What counts as code differs between parsers, so nothing depends on it: every `<` that could begin a tag is broken, by an
entity, or, where it looks like code and an entity would be shown as it is, by a character without width after it. As
it stands, for people to copy, is only what every parser calls code: a fence after an empty line, or at the beginning,
in a text that has nothing which could hold the fence or end it earlier.
"""

import re
from typing import Any

from schemas.items.conversation import RecordType
from tasks.arena.conversations import ArenaConversation, Mode, Side
from tasks.arena.names import names_of, without_names

_JOINER = "\u2060"
_TAG = re.compile(r"<(?=[/!?A-Za-z])(?!/?(?:br|sub|sup)\s*/?>)")
_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]*`)", re.DOTALL)
_FENCE = re.compile(
    r"(?:\A|(?<=\n\n))```[A-Za-z0-9+#-]{0,20}\n(?:(?![^\n]*(?:```|~~~))[^\n]*(?:\n|\Z))*(?:```(?=\n|\Z)|\Z)"
)
_HOLDS_FENCES = re.compile(r"```|~~~|\]:|\$\$|\\\[|\\\(|\r")
"""Marks of what could hold a fence or end it: other fences, definitions of links, formulas, other ends of lines."""
_FORMULA = re.compile(r"\$\$|\\\[|\\\(")


def harmless(text: str) -> str:
    """Markdown without HTML, but for line breaks and raised or lowered characters, and without images."""
    shown: list[str] = []
    last = 0
    for fence in _FENCE.finditer(text):
        if _HOLDS_FENCES.search(text, last, fence.start()) or _FORMULA.search(fence[0]):
            break
        shown += [_without_tags(text[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join(shown) + _without_tags(text[last:])


def _without_tags(text: str) -> str:
    """No tag and no image in any reading of the text."""
    parts = _CODE.split(text)
    return "".join(_joined(part) if place % 2 else _as_entities(part) for place, part in enumerate(parts))


def _as_entities(text: str) -> str:
    return _TAG.sub("&lt;", text).replace("![", "!&#91;")  # an image would be asked for at any address


def _joined(text: str) -> str:
    return _TAG.sub("<" + _JOINER, text).replace("![", f"!{_JOINER}[")


NO_ANSWER = "*No answer came from this model. Regenerate, or start a new round.*"
WAITING = "…"
LETTERS = ("A", "B")
SAID = {
    RecordType.LEFT_VOTE: "A is better",
    RecordType.RIGHT_VOTE: "B is better",
    RecordType.TIE_VOTE: "tie",
    RecordType.BOTH_BAD_VOTE: "both are bad",
    RecordType.UPVOTE: "good answer",
    RecordType.DOWNVOTE: "bad answer",
    RecordType.FLAG: "flagged",
}


def chat_messages(conversation: ArenaConversation, side: Side) -> list[dict[str, Any]]:
    """Contents of a side's window, in Gradio's form: Markdown without HTML of the prompts or the answers."""
    names = names_of([] if conversation.named else [each.model for each in conversation.sides])
    shown: list[dict[str, Any]] = []
    for number, prompt in enumerate(conversation.prompts):
        images = "".join(f'<img src="pictures/{each.token}.png" alt="image">' for each in prompt.pictures)
        shown += [{"role": "user", "content": images}] if images else []
        shown += [{"role": "user", "content": harmless(prompt.text)}] if prompt.text else []
        if number < len(side.answers):
            answer = side.answers[number]
            text = NO_ANSWER if answer.failed else harmless(without_names(answer.text, names, answer.done)) or WAITING
            shown.append({"role": "assistant", "content": text})
    return shown


def label(conversation: ArenaConversation | None, mode: Mode, place: int, chosen: str = "") -> str:
    """The heading of a side's window."""
    if conversation is not None and conversation.named:
        name = conversation.sides[place].model.name
    else:
        name = "" if mode is Mode.BATTLE else chosen
    letter = "Model" if mode is Mode.DIRECT else f"Model {LETTERS[place]}"
    return f"{letter}: {name}" if name else letter


def status(conversation: ArenaConversation | None) -> str:
    """One line below the windows."""
    if conversation is None:
        return ""
    if conversation.forgotten and not any(side.logged for side in conversation.sides):
        return "Nothing of this conversation was kept. It has ended."
    if conversation.forgotten:
        return "The operators were asked to remove this conversation. It has ended."
    cast = conversation.voted.get(("vote", *conversation.state))
    said = [f"You voted: {SAID[cast]}."] if cast else []
    if conversation.mode is Mode.BATTLE and conversation.revealed:
        names = " · ".join(
            f"{letter} is {side.model.name}" for letter, side in zip(LETTERS, conversation.sides, strict=True)
        )
        said.append(f"{names}. Start a new round for other models.")
    if conversation.voted.get(("share", *conversation.state)):
        said.append("The operators may show this conversation to others.")
    return " ".join(said)
