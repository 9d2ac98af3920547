"""Texts of the demo arena, from `words/*.yaml`, and seeded random generators."""

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from schemas.row import Row
from tasks.runtime.yaml_files import read_yaml

_FOLDER = Path(__file__).parent / "words"


def chance(*seed: object) -> Random:
    """A random generator that depends only on its arguments, such as `chance(0, "pool")`."""
    return Random(":".join(map(str, seed)))  # noqa: S311  a demo must be reproducible, and keeps no secrets


class Topic(Row):
    """One topic of conversations."""

    share: float
    """Weight among the topics."""
    families: list[str]
    """Image families of the topic."""
    nouns: dict[str, str]
    """Language -> noun for its images, for answers in that language."""
    prompts: dict[str, list[str]]
    """Language -> opening prompts, with slots in braces for facts of the image."""
    openings: list[str]
    """First sentences of English answers, with slots."""
    details: list[str]
    """Further sentences of English answers, with slots."""


class Speech(Row):
    """Texts of one language for all topics."""

    share: float
    """Weight among the languages."""
    contexts: list[str]
    """Sentences that may precede a prompt."""
    styles: list[str]
    """Sentences that may follow a prompt."""
    follow_ups: list[str]
    """Later user messages."""
    openings: list[str]
    """First sentences of answers, with a slot for the noun; empty when topics have their own."""
    details: list[str]
    """Further sentences of answers; empty when topics have their own."""
    closings: list[str]
    """Last sentences of answers."""
    refusals: list[str]
    """Answers that decline."""


@cache
def load(name: str) -> Any:
    """Content of one file of words."""
    return read_yaml(_FOLDER / f"{name}.yaml")


@cache
def topics() -> dict[str, Topic]:
    """Topics by name, in the order of their files."""
    names = sorted(file.stem for file in (_FOLDER / "topics").glob("*.yaml"))
    return {name: Topic(**load(f"topics/{name}")) for name in names}


@cache
def speeches() -> dict[str, Speech]:
    """Language code -> its words."""
    return {code: Speech(**words) for code, words in load("languages").items()}


def things(group: str) -> list[str]:
    """A list of names to draw and talk about."""
    names: list[str] = load("things")[group]
    return names
