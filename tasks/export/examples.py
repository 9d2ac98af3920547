"""One released conversation -> one training example."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from datasets import Features, List, Value

from schemas.export import SftStyle

_MARK = "<image>"
_DEFUSED = "< image >"
"""What a user's own `<image>` becomes, because trainers count the marks."""

Example = dict[str, Any]


def messages_example(row: Mapping[str, Any], images: Sequence[str]) -> Example:
    """`messages` whose first user message shows the pictures, and `images` with their paths."""
    messages = []
    for place, turn in enumerate(row["conversation"]):
        shown = [{"type": "image", "text": None} for _ in images] if place == 0 else []
        messages.append({"role": turn["role"], "content": [*shown, {"type": "text", "text": turn["content"]}]})
    return {"id": row["conversation_id"], "messages": messages, "images": list(images), **_about(row)}


def llava_example(row: Mapping[str, Any], images: Sequence[str]) -> Example:
    """`conversations` with one mark for each picture before the first text, and `image` with their paths."""
    turns = []
    for place, turn in enumerate(row["conversation"]):
        marks = f"{_MARK}\n" * len(images) if place == 0 else ""
        who = "human" if turn["role"] == "user" else "gpt"
        turns.append({"from": who, "value": marks + turn["content"].replace(_MARK, _DEFUSED)})
    return {"id": row["conversation_id"], "image": list(images), "conversations": turns, **_about(row)}


def as_trainers_read(example: Example) -> Example:
    """LLaVA's trainers take `image` for a path, LLaVA-NeXT's several for a list; without one there is no picture."""
    if "image" not in example:
        return example
    paths = example["image"]
    rest = {name: value for name, value in example.items() if name != "image"}
    return rest if not paths else {"id": rest.pop("id"), "image": paths[0] if len(paths) == 1 else paths, **rest}


def _about(row: Mapping[str, Any]) -> Example:
    return {"model": row["model"], "language": row["language"], "topic": row["topic"]}


_TEXT = Value("string")
_ABOUT = {"model": _TEXT, "language": _TEXT, "topic": _TEXT}
FEATURES: dict[SftStyle, Features] = {
    SftStyle.MESSAGES: Features(
        {"id": _TEXT, "messages": List({"role": _TEXT, "content": List({"type": _TEXT, "text": _TEXT})})}
        | {"images": List(_TEXT)}
        | _ABOUT
    ),
    SftStyle.LLAVA: Features(
        {"id": _TEXT, "image": List(_TEXT), "conversations": List({"from": _TEXT, "value": _TEXT})} | _ABOUT
    ),
}
"""Style -> the columns of its Parquet file."""
EXAMPLES: dict[SftStyle, Callable[[Mapping[str, Any], Sequence[str]], Example]] = {
    SftStyle.MESSAGES: messages_example,
    SftStyle.LLAVA: llava_example,
}
