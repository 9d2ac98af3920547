"""The words of the demo arena, kept as data in `words/*.yaml`."""

from functools import cache
from pathlib import Path
from typing import Any

from schemas.row import Row
from tasks.yaml_files import read_yaml

_FOLDER = Path(__file__).parent / "words"


class Topic(Row):
    """One subject that users talk about."""

    share: float
    """Weight among the topics."""
    families: list[str]
    """Picture families it is about."""
    nouns: dict[str, str]
    """Language -> what its pictures show, for answers in that language."""
    prompts: dict[str, list[str]]
    """Language -> opening prompts, with slots in braces for facts of the picture."""
    openings: list[str]
    """First sentences of English answers, with slots."""
    details: list[str]
    """Further sentences of English answers, with slots."""


class Speech(Row):
    """What is said in one language whatever the topic."""

    share: float
    """Weight among the languages."""
    contexts: list[str]
    """What may stand before a prompt."""
    styles: list[str]
    """What may stand after a prompt."""
    follow_ups: list[str]
    """Later user messages."""
    openings: list[str]
    """First sentences of answers, with a slot for the noun; empty where topics bring their own."""
    details: list[str]
    """Further sentences of answers; empty where topics bring their own."""
    closings: list[str]
    """Last sentences of answers."""
    refusals: list[str]
    """Answers that decline."""


@cache
def topics() -> dict[str, Topic]:
    """Topics by name, in the order of their files."""
    return {file.stem: Topic(**_load(file)) for file in sorted((_FOLDER / "topics").glob("*.yaml"))}


@cache
def speeches() -> dict[str, Speech]:
    """Language code -> its words."""
    return {code: Speech(**words) for code, words in load("languages").items()}


@cache
def load(name: str) -> Any:
    """Content of one file of words."""
    return _load(_FOLDER / f"{name}.yaml")


def things(group: str) -> list[str]:
    """A list of names to draw and talk about."""
    names: list[str] = load("things")[group]
    return names


def _load(file: Path) -> Any:
    return read_yaml(file)
