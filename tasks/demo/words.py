"""Texts of the demo arena, from `words/*.yaml`, and seeded random generators."""

from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tasks.runtime.untrusted import read_yaml

_FOLDER = Path(__file__).parent / "words"


def chance(*seed: object) -> Random:
    """A random generator that depends only on its arguments, such as `chance(0, "pool")`."""
    return Random(":".join(map(str, seed)))  # noqa: S311  a demo must be reproducible, and keeps no secrets


class Topic(NamedTuple):
    """One topic of conversations; `words/topics/animals.yaml` says what its fields mean."""

    share: float
    families: list[str]
    nouns: dict[str, str]
    prompts: dict[str, list[str]]
    openings: list[str]
    details: list[str]


class Speech(NamedTuple):
    """Texts of one language for all topics; `words/languages.yaml` says what its fields mean."""

    share: float
    contexts: list[str]
    styles: list[str]
    follow_ups: list[str]
    openings: list[str]
    details: list[str]
    closings: list[str]
    refusals: list[str]


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
