"""Which pictures of many may look the same, from glimpses: the others need not be decoded whole.

Decoding the brightness alone, and large pictures smaller, moves the 32 x 32 levels a little, and the DCT hash by no
more than 2 bits of 64 where the frequencies are clear of their median (1,009 photographs, drawings and pages, see
docs/pictures.md). Twice that is searched for. All other pictures are decoded in full for this, which moves nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from schemas.policy import NearPictures
from tasks.decide.hamming import hamming_pairs
from tasks.decide.near_pictures import grey_correlations
from tasks.measure.perceptual_hash import clear_phash_bits, phash_bits
from tasks.pixels.pictures import glimpse, small_grey_of

BITS_OFF_MAX = 4
"""Bits by which the DCT hash of a glimpse may be off."""
CORRELATION_OFF_MAX = 0.05
"""What the correlation of two pictures may lose when both are glimpsed."""
CLEAR = 50.0
"""A frequency nearer to the median, in units of the unscaled DCT of 32 x 32 levels, may fall on either side of it."""
SPREAD_MIN = 4.0
"""Levels, standard deviation: flatter pictures are decided by rounding."""


class Glimpse(NamedTuple):
    """What is known of a picture, nearly or exactly."""

    phash: int
    """DCT hash, 64 bits."""
    grey: npt.NDArray[np.uint8]
    """Brightness, uint8 (1024,)."""


def glimpsed(content: bytes) -> Glimpse:
    """Nearly what a whole decode would give, or exactly where it might be further off than is searched for.

    Raises PictureRejected as `open_picture` does.
    """
    grey = glimpse(content)
    if grey is not None and cv2.meanStdDev(grey)[1][0, 0] >= SPREAD_MIN:
        bits, unclear = clear_phash_bits(grey, CLEAR)
        if unclear <= BITS_OFF_MAX:
            return _seen(bits, grey)
    grey = small_grey_of(content)
    return _seen(phash_bits(grey), grey)


def _seen(bits: npt.NDArray[np.bool_], grey: npt.NDArray[np.uint8]) -> Glimpse:
    return Glimpse(int.from_bytes(np.packbits(bits).tobytes()), grey.ravel())


def maybe_near(pictures: Sequence[Glimpse], radius: NearPictures) -> set[int]:
    """Places of pictures that another one may be within the radius of."""
    if not pictures:
        return set()
    hashes = np.array([picture.phash for picture in pictures], np.uint64)
    i, j = hamming_pairs(hashes, radius.phash_distance_max + 2 * BITS_OFF_MAX).T
    alike = grey_correlations(np.stack([picture.grey for picture in pictures]), i, j)
    near = alike >= radius.grey_correlation_min - CORRELATION_OFF_MAX
    return {*i[near].tolist(), *j[near].tolist()}
