"""Rows of a release with the columns of VisionArena's published datasets, quirks included.

Chat wraps each message in a list of one and numbers its users; Battle names judges `arena_user_…` and keeps markdown
counts by level; Bench has lists of lists, too. Pictures are called `<32 hex>.png`, however they are encoded. Column
order is that of the published cards.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Features, Image, List, Value

from schemas.release import ReleasedCategories
from schemas.row import arrow_schema
from tasks.measure.markdown import markdown

Row = Mapping[str, Any]
_SHORT_ID = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_SHORT_ID_LENGTH = 22
_LEVELS = [f"h{level}" for level in range(1, 7)]
_MESSAGE = {"content": Value("string"), "role": Value("string")}
_CATEGORIES = {name: Value("bool") for name in arrow_schema(ReleasedCategories).names}


def _side_features(side: str) -> dict[str, Any]:
    number = Value("int64")
    return {
        f"bold_count_{side}": {"**": number, "__": number},
        f"context_{side}_tokens": number,
        f"header_count_{side}": dict.fromkeys(_LEVELS, number),
        f"list_count_{side}": {"ordered": number, "unordered": number},
        f"sum_assistant_{side}_tokens": number,
    }


FEATURES: dict[str, Features] = {
    "chat": Features(
        {
            "images": List(Image()), "conversation_id": Value("string"), "model": Value("string"),
            "num_turns": Value("int64"), "conversation": List(List(_MESSAGE)), "language": Value("string"),
            "user_id": Value("int64"), "tstamp": Value("float64"), "is_preset": Value("bool"),
            "preset_dataset": Value("string"), "categories": _CATEGORIES,
        }
    ),
    "battle": Features(
        {
            "judge": Value("string"), "winner": Value("string"), "num_turns": Value("int64"),
            "language": Value("string"), "categories": _CATEGORIES, "images": List(Image()),
            "question_id": Value("string"), "model_a": Value("string"), "model_b": Value("string"),
            "conversation_a": List(_MESSAGE), "conversation_b": List(_MESSAGE), "tstamp": Value("float64"),
            "conv_metadata": _side_features("a") | _side_features("b") | {"sum_user_tokens": Value("int64")},
        }
    ),
    "bench": Features({"question_id": Value("string"), "turns": List(List(_MESSAGE)), "images": List(Image())}),
}  # fmt: skip
"""Configuration -> the published columns."""


def chat_row(row: Row) -> dict[str, Any]:
    """A row of VisionArena-Chat."""
    return _kept("chat", row) | {"conversation": _wrapped(row["conversation"]), "user_id": user_number(row["user_id"])}


def battle_row(row: Row) -> dict[str, Any]:
    """A row of VisionArena-Battle."""
    known = row["conv_metadata"]
    sides = [_side(side, row[f"conversation_{side}"], known) for side in ("a", "b")]
    metadata = sides[0] | sides[1] | {"sum_user_tokens": known["context_tokens"]}
    return _kept("battle", row) | {"judge": judge_name(row["judge"]), "conv_metadata": metadata}


def bench_row(row: Row) -> dict[str, Any]:
    """A row of VisionArena-Bench."""
    return _kept("bench", row) | {"turns": _wrapped(row["turns"])}


ROWS: dict[str, Callable[[Row], dict[str, Any]]] = {"chat": chat_row, "battle": battle_row, "bench": bench_row}


def user_number(user_id: str | None) -> int | None:
    """The first 52 bits of the keyed hash: a number that stays the user's from version to version.

    Where a user is null, pandas reads the column as floats, which hold whole numbers up to 53 bits.
    """
    return None if user_id is None else int(user_id[:13], 16)


def judge_name(judge: str | None) -> str | None:
    """`arena_user_` and 22 characters of the alphabet without look-alikes, made of the keyed hash."""
    if judge is None:
        return None
    number, letters = int.from_bytes(hashlib.blake2b(judge.encode(), digest_size=16).digest(), "big"), ""
    for _ in range(_SHORT_ID_LENGTH):
        number, place = divmod(number, len(_SHORT_ID))
        letters = _SHORT_ID[place] + letters
    return f"arena_user_{letters}"


def _kept(config: str, row: Row) -> dict[str, Any]:
    named = [{"bytes": image["bytes"], "path": f"{Path(image['path']).stem}.png"} for image in row["images"]]
    return {name: row[name] for name in FEATURES[config] if name in row} | {"images": named}


def _wrapped(messages: Sequence[Row]) -> list[list[Row]]:
    return [[message] for message in messages]


def _side(side: str, messages: Sequence[Row], known: Row) -> dict[str, Any]:
    counts = [markdown(message["content"]) for message in messages if message["role"] == "assistant"]
    totals = {name: sum(getattr(each, name) for each in counts) for name in type(markdown("")).model_fields}
    return {
        f"bold_count_{side}": {"**": totals["bold_stars"], "__": totals["bold_underscores"]},
        f"context_{side}_tokens": known["context_tokens"],
        f"header_count_{side}": {level: totals[level] for level in _LEVELS},
        f"list_count_{side}": {"ordered": totals["ordered"], "unordered": totals["unordered"]},
        f"sum_assistant_{side}_tokens": known[side]["assistant_tokens"],
    }
