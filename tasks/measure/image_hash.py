"""Perceptual hashes of a picture, for near-duplicates (DCT hash) and known-hash lists (PDQ)."""

from schemas.signals import ImageHash
from tasks.measure.perceptual_hash import hex_digits, pdq_bits, phash_bits
from tasks.measure.signal import Signal, by_rule
from tasks.pixels.pictures import Picture

VERSION = "2"


def image_hash() -> Signal[Picture]:
    """Signal `image_hash`."""
    return by_rule("image_hash", VERSION, picture_hash)


def picture_hash(picture: Picture) -> ImageHash:
    """What the signal says of a picture."""
    bits, quality = pdq_bits(picture.columns)
    grey = picture.small_grey
    return ImageHash(
        phash=hex_digits(phash_bits(grey)), pdq=hex_digits(bits), pdq_quality=quality, grey=grey.tobytes().hex()
    )
