"""Text that can be read in a picture."""

from collections.abc import Sequence

from schemas.signals import ImageText
from tasks.measure.signal import Signal
from tasks.pixels.pictures import Picture
from tasks.providers import Providers
from tasks.providers.capabilities import Failed, TextReader


def image_text(providers: Providers) -> Signal[Picture]:
    """Signal `image_text`."""
    reader: TextReader = providers["image_text"]

    def measure(pictures: Sequence[Picture]) -> list[ImageText | Failed]:
        return list(reader.read(pictures))

    return Signal("image_text", f"2+{reader.version}", providers.names["image_text"], measure)
