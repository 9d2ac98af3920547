"""From the settings of a run to the way votes become ratings."""

from schemas.rating import RatingMethod
from schemas.settings import Settings


def method_of(settings: Settings) -> RatingMethod:
    """The part of the settings that says how votes become ratings."""
    return RatingMethod(
        bootstraps=settings.bootstraps,
        seed=settings.seed,
        anchor_model=settings.anchor_model,
        anchor_rating=settings.anchor_rating,
        interval=settings.interval,
        both_bad=settings.both_bad,
        style=settings.style_preset,
        elo_k=settings.elo_k,
    )
