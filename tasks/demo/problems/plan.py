"""What planting means: a scene, and when it can be played."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

import PIL.Image

from tasks.demo.chance import chance
from tasks.demo.drawings.canvas import Drawing
from tasks.demo.picture_pool import PoolPicture
from tasks.demo.stage import Scene, Stage
from tasks.demo.timeline import Era
from tasks.demo.words import load

ALL_ERAS = frozenset(Era)
IN_MESSAGES = frozenset({Era.JPG, Era.PNG})
"""Eras whose votes and messages name their pictures."""
EXACT = frozenset({Era.PNG})
"""The era whose files hold exactly the pixels that were uploaded."""


class Problem(NamedTuple):
    """Something planted."""

    scene: Scene
    eras: frozenset[Era] = ALL_ERAS
    needs_morrow: bool = False
    """Whether it needs a day that is followed by another."""


Draw = Callable[[], PIL.Image.Image]
"""Draws a planted picture when its scene is played, so that they are never all in memory."""

Planter = Callable[[Stage, Random], Iterator[Problem]]
"""Plants every variant of one kind once."""


def texts(kind: str) -> list[dict[str, Any]]:
    """The texts of a kind, from `words/problem_texts.yaml`."""
    found: list[dict[str, Any]] = load("problem_texts")[kind]
    return found


def later(draw: Callable[..., Drawing], rng: Random, *given: Any) -> Draw:
    """What draws one picture, the same however often it is called."""
    seed = rng.getrandbits(64)
    return lambda: draw(chance(seed), *given).image


def upload(name: str) -> PoolPicture:
    """A picture of which only its logged name is known, with words that fit any."""
    return PoolPicture(name, "documents", {"what": "picture", "title": "the picture", "line": "nothing in particular"})
