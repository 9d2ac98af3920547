"""Perceptual hashes of a picture, for near-duplicates (DCT hash) and known-hash lists (PDQ)."""

from schemas.signals import ImageHash
from tasks.measure.perceptual_hash import hex_digits, pdq_bits, phash_bits
from tasks.pixels.pictures import Picture

VERSION = "2"


def picture_hash(picture: Picture) -> ImageHash:
    """Hashes of one image."""
    bits, quality = pdq_bits(picture.columns)
    grey = picture.small_grey
    return ImageHash(
        phash=hex_digits(phash_bits(grey)), pdq=hex_digits(bits), pdq_quality=quality, grey=grey.tobytes().hex()
    )


image_hash = picture_hash
"""The rule of the signal of that name."""
