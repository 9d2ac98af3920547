"""The invented models, and votes drawn from their planted strengths."""

from functools import cache
from random import Random

from schemas.row import Row
from tasks.demo.words import load

TIE_PROBABILITY, BOTH_BAD_PROBABILITY = 0.14, 0.07


class Model(Row):
    """One invented model."""

    name: str
    """The name logs use."""
    strength: float
    """Planted rating on a Bradley-Terry scale of 400, base 10."""
    roles: list[str]
    """What its template calls user and assistant."""


@cache
def models() -> tuple[Model, ...]:
    """All models, strongest first."""
    return tuple(Model(**entry) for entry in load("models"))


def quality(model: Model) -> float:
    """0 for the weakest model to 1 for the strongest."""
    strengths = [other.strength for other in models()]
    return (model.strength - min(strengths)) / (max(strengths) - min(strengths))


def win_probability(model: Model, other: Model) -> float:
    """Bradley-Terry probability that a vote which is no tie goes to `model`."""
    return float(1 / (1 + 10 ** ((other.strength - model.strength) / 400)))


def verdict(rng: Random, left: Model, right: Model) -> str:
    """The type of the vote line. Ties do not depend on the pair, so that they do not move the order."""
    luck = rng.random()
    if luck < TIE_PROBABILITY:
        return "tievote"
    if luck < TIE_PROBABILITY + BOTH_BAD_PROBABILITY:
        return "bothbad_vote"
    return "leftvote" if rng.random() < win_probability(left, right) else "rightvote"
