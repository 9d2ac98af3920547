"""Building blocks of planted problems: a scene and the days on which it can happen."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, NamedTuple

import PIL.Image

from tasks.demo.images import PoolImage
from tasks.demo.records import Era, PlantedFact, Talk
from tasks.demo.traffic import PlayedScene, Stage
from tasks.demo.words import chance, load
from tasks.drawing.canvas import DrawnImage

ALL_ERAS = frozenset(Era)
IN_MESSAGES = frozenset({Era.JPG, Era.PNG})
"""Eras whose votes and messages name their images."""
EXACT = frozenset({Era.PNG})
"""The era whose files hold exactly the pixels that were uploaded."""


class Problem(NamedTuple):
    """One planted problem."""

    scene: PlayedScene
    eras: frozenset[Era] = ALL_ERAS
    needs_morrow: bool = False
    """Whether it needs a day followed by another day of traffic."""


Draw = Callable[[], PIL.Image.Image]
"""Draws a planted image when its scene is played, so that not all images are in memory."""

Planter = Callable[[Stage, Random], Iterable[Problem]]
"""Function that plants every variant of one kind once."""


def planter(*scenes: PlayedScene, eras: frozenset[Era] = ALL_ERAS, needs_morrow: bool = False) -> Planter:
    """Plants each of the scenes once."""
    return lambda stage, rng: [Problem(scene, eras, needs_morrow) for scene in scenes]


def texts(kind: str) -> list[dict[str, Any]]:
    """The texts of a kind, from `words/problem_texts.yaml`."""
    kind_texts: list[dict[str, Any]] = load("problem_texts")[kind]
    return kind_texts


def later(draw: Callable[..., DrawnImage], rng: Random, *given: Any) -> Draw:
    """A function that draws one image; every call gives the same image."""
    seed = rng.getrandbits(64)
    return lambda: draw(chance(seed), *given).image


def upload(name: str) -> PoolImage:
    """An uploaded image: its logged name, with words that fit any image."""
    return PoolImage(name, "documents", {"what": "picture", "title": "the picture", "line": "nothing in particular"})


def about(kind: str, talk: Talk, **more: Any) -> PlantedFact:
    """A fact about one conversation."""
    return {"kind": kind, "conversation_id": talk.conv_id, **more}
