"""Perceptual hashes of an image, for near-duplicates and for lists of known images."""

from tasks.measure.signal import Signal, by_rule
from tasks.pixels.hashes import image_hashes
from tasks.pixels.pictures import Picture

VERSION = "3"


def image_hash() -> Signal[Picture]:
    """Signal `image_hash`."""
    return by_rule("image_hash", VERSION, image_hashes)
