"""The pictures of ordinary traffic: drawn once, saved, and used again and again."""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from tasks.demo.chance import chance
from tasks.demo.drawings import FAMILIES
from tasks.demo.drawings.canvas import Drawing
from tasks.demo.photographs import photographs, view, views
from tasks.demo.picture_folder import PictureFolder
from tasks.demo.timeline import Era
from tasks.demo.words import topics

_EARLY_EVERY, _BOTH_EVERY = 4, 9
"""Every fourth picture belongs to the early eras, every ninth to all of them; the others are of the last."""


class PoolPicture(NamedTuple):
    """One picture that conversations can be about."""

    name: str
    """Logged name."""
    topic: str
    facts: dict[str, str]
    """Words for the slots of prompts and answers."""


class PicturePool:
    """Pictures by era."""

    def __init__(self, folder: PictureFolder, size: int, seed: int) -> None:
        self._early: list[PoolPicture] = []
        self._late: list[PoolPicture] = []
        for number, (topic, drawing) in enumerate(_drawings(size, seed)):
            both, early = number % _BOTH_EVERY == 0, number % _EARLY_EVERY == 1
            eras = [Era.JPG] * (both or early) + [Era.PNG] * (both or not early)
            names = [folder.save(drawing.image, era) for era in eras]
            picture = PoolPicture(names[0], topic, drawing.facts)
            if both or early:
                self._early.append(picture)
            if both or not early:
                self._late.append(picture)

    def of(self, era: Era) -> list[PoolPicture]:
        """The pictures whose files an era's server has."""
        return self._late if era is Era.PNG else self._early


def _drawings(size: int, seed: int) -> Iterator[tuple[str, Drawing]]:
    """(topic, drawing) of `size` pictures; photographs while there are any, then drawings in their place."""
    rng = chance(seed, "pool")
    names, weights = list(topics()), [topic.share for topic in topics().values()]
    shots = _photograph_views(rng)
    made = 0
    while made < size:
        topic = rng.choices(names, weights)[0]
        family = rng.choice(topics()[topic].families)
        if family in FAMILIES:
            yield topic, FAMILIES[family](chance(seed, family, made))
        elif shots.get(family):
            yield topic, shots[family].pop()()
        else:
            continue
        made += 1


class _Shot(NamedTuple):
    file: int
    cut: tuple[int, int, int]

    def __call__(self) -> Drawing:
        return view(photographs("scenes")[self.file], self.cut)


def _photograph_views(rng: Random) -> dict[str, list[_Shot]]:
    """Every view of every shipped photograph by family, in random order."""
    found: dict[str, list[_Shot]] = {}
    for file, photograph in enumerate(photographs("scenes")):
        found.setdefault(photograph.family, []).extend(_Shot(file, cut) for cut in views(photograph))
    for shots in found.values():
        rng.shuffle(shots)
    return found
