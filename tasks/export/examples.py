"""A released conversation as a training example, in the style of a trainer, with every image where it stood."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from schemas.publication import SftStyle
from tasks.ingest.log_line import MARK

Example = dict[str, Any]
_MARKS = re.compile("<(image|video|audio|bbox|ref-object|start-image|cot-process)>")
"""Marks that LLaVA, LLaMA-Factory or ms-swift replace by something; those that a user typed are spelled `< image >`."""
_DEFUSED = r"< \1 >"


def messages_example(row: Mapping[str, Any], paths: Sequence[str]) -> Example:
    """An example with `messages` of typed parts, and `images`: a path for each image part, in order."""
    messages = []
    for turn, shown in _shown(row, len(paths)):
        parts = [
            {"type": "image", "text": None} if isinstance(part, int) else {"type": "text", "text": part}
            for part in _parts(turn["content"], shown)
        ]
        messages.append({"role": turn["role"], "content": parts or [{"type": "text", "text": ""}]})
    return {"id": row["conversation_id"], "messages": messages, "images": _in_order(row, paths), **_about(row)}


def llava_example(row: Mapping[str, Any], paths: Sequence[str]) -> Example:
    """An example with `conversations` and `image`: a path for each mark, in order."""
    return {
        "id": row["conversation_id"],
        "image": _in_order(row, paths),
        "conversations": _marked_turns(row, len(paths)),
        **_about(row),
    }


def sharegpt_example(row: Mapping[str, Any], paths: Sequence[str]) -> Example:
    """An example with `conversations` and `images`: a path for each mark, in order."""
    example = llava_example(row, paths)
    return {"id": example.pop("id"), "images": example.pop("image"), **example}


def as_trainers_read(example: Example) -> Example:
    """`image` as LLaVA's trainers expect it: a path, a list for several images (LLaVA-NeXT), missing without images."""
    if "image" not in example:
        return example
    paths = example["image"]
    rest = {name: value for name, value in example.items() if name != "image"}
    return rest if not paths else {"id": rest.pop("id"), "image": paths[0] if len(paths) == 1 else paths, **rest}


def _marked_turns(row: Mapping[str, Any], images: int) -> list[dict[str, str]]:
    who = {"user": "human", "assistant": "gpt"}
    return [{"from": who[turn["role"]], "value": marked(turn["content"], at)} for turn, at in _shown(row, images)]


def marked(text: str, shown: Sequence[Mapping[str, int]]) -> str:
    """The text with a mark for every image, on a line of its own at the beginning of a line and behind the text."""
    parts, said = list(_parts(text, shown)), ""
    last_words = max((place for place, part in enumerate(parts) if isinstance(part, str)), default=-1)
    for place, part in enumerate(parts):
        if isinstance(part, str):
            said += _MARKS.sub(_DEFUSED, part)
        elif not said or said.endswith("\n"):
            said += f"{MARK}\n"
        else:
            said += f"\n{MARK}" if place > last_words else MARK
    return said if last_words == len(parts) - 1 else said.removesuffix("\n")


def _parts(text: str, shown: Sequence[Mapping[str, int]]) -> Iterator[str | int]:
    """Pieces of text, and the indexes of the images between them."""
    start = 0
    for each in shown:
        if piece := text[start : each["character"]]:
            yield piece
        yield each["image"]
        start = max(start, each["character"])
    if piece := text[start:]:
        yield piece


def _shown(row: Mapping[str, Any], images: int) -> Iterator[tuple[Mapping[str, Any], list[Mapping[str, int]]]]:
    """Every turn and its images; an image that no turn shows stands before the first text."""
    placed = {each["image"] for turn in row["conversation"] for each in turn["images"]}
    first = [{"image": image, "character": 0} for image in range(images) if image not in placed]
    for place, turn in enumerate(row["conversation"]):
        yield turn, [*([] if place else first), *(each for each in turn["images"] if each["image"] < images)]


def _in_order(row: Mapping[str, Any], paths: Sequence[str]) -> list[str]:
    """The path of every image of every turn, in order; one that is shown again is listed again."""
    return [paths[each["image"]] for _, shown in _shown(row, len(paths)) for each in shown]


def _about(row: Mapping[str, Any]) -> Example:
    return {"model": row["model"], "language": row["language"], "topic": row["topic"]}


EXAMPLES: dict[SftStyle, Callable[[Mapping[str, Any], Sequence[str]], Example]] = {
    SftStyle.MESSAGES: messages_example,
    SftStyle.LLAVA: llava_example,
    SftStyle.SHAREGPT: sharegpt_example,
}
