"""Perceptual hashes of a decoded image: 64-bit DCT hash, 256-bit PDQ, and a 32 x 32 grey thumbnail."""

import imagehash
import numpy as np
import pdqhash
import PIL.Image

from schemas.signals import ImageHash
from tasks.images.decode import DecodedImage, Filter, Pixels

PDQ_SIDE_MIN = 512
"""PDQ is computed on the image reduced by a whole factor that leaves at least this longer side, in pixels.

Its authors recommend 512 pixels. For 14 photographs the hash then differs from that of the full size in at most 6 of
256 bits; shrunk to exactly 512 pixels it differs in up to 18. Known images are matched within 31 bits.
"""
THUMBNAIL_SIDE = 32


def image_hashes(image: DecodedImage) -> ImageHash:
    """The three hashes of one image."""
    thumbnail = image.pil.convert("L").resize((THUMBNAIL_SIDE, THUMBNAIL_SIDE), Filter.LANCZOS)
    phash = imagehash.phash(thumbnail)  # it shrinks to 32 x 32 in the same way: the hash of the whole image
    pdq, quality = _pdq(image.pil)
    return ImageHash(phash=str(phash), pdq=pdq, pdq_quality=quality, grey=thumbnail.tobytes().hex())


def pdq_digits(rgb: Pixels) -> str:
    """The PDQ hash of uint8 (height, width, 3), 64 hexadecimal digits in Meta's order."""
    return _pdq(PIL.Image.fromarray(rgb))[0]


def _pdq(image: PIL.Image.Image) -> tuple[str, int]:
    """The hash and its quality, 0 to 100."""
    reduced = image.reduce(max(1, max(image.size) // PDQ_SIDE_MIN))
    bits, quality = pdqhash.compute(np.asarray(reduced))
    return np.packbits(bits).tobytes().hex(), int(quality)
