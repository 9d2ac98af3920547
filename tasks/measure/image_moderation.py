"""How harmful a picture is, and in which way. States scores; whether they matter is the policy's business."""

from collections.abc import Sequence

from schemas.signals import Moderation
from tasks.measure.signal import Signal
from tasks.pixels.pictures import Picture
from tasks.providers import Providers
from tasks.providers.capabilities import Failed, PictureModerator


def image_moderation(providers: Providers) -> Signal[Picture]:
    """Signal `image_moderation`."""
    moderator: PictureModerator = providers["image_moderation"]

    def measure(pictures: Sequence[Picture]) -> list[Moderation | Failed]:
        return list(moderator.moderate_pictures(pictures))

    return Signal("image_moderation", f"1+{moderator.version}", providers.names["image_moderation"], measure)
