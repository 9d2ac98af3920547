"""Where the images of a conversation stand among the words of its prompt, when its user messages are one text."""

from collections.abc import Mapping, Sequence
from typing import Any

BETWEEN = "\n\n"
"""Separator of the user's messages."""


def image_places(turns: Sequence[Mapping[str, Any]], images: int, numbered: bool = False) -> tuple[int, ...]:
    """Characters of the joined user messages before each image, by the image's index in the conversation.

    Empty where all images stand before the first word, or where the place of one is unknown. `numbered`: several
    messages begin with their number, as in `(2) `. An image that is shown again counts where it is shown first.
    """
    asked, start = [turn for turn in turns if turn["role"] == "user"], 0
    found: dict[int, int] = {}
    for number, turn in enumerate(asked, 1):
        start += len(f"({number}) ") if numbered and len(asked) > 1 else 0
        for shown in turn.get("images") or ():
            found.setdefault(shown["image"], start + shown["character"])
        start += len(turn["content"]) + len(BETWEEN)
    known = [found[index] for index in range(images) if index in found]
    return tuple(known) if len(known) == images and any(known) else ()
