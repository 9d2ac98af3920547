"""How far two pictures of one scene differ in colour alone: hashes and grey thumbnails see brightness only.

In: the chroma thumbnails of `signals/image_colour`, and pairs of pictures. Out: one distance a pair. A copy may be
paler than its original, down to grey, because editors and cameras fade a whole picture; what has another hue in one
place is another picture. A further change of colours that a copy may have is undone in `_distances`, as fading is.
"""

import numpy as np
import numpy.typing as npt

from tasks.images.measures import COLOUR_SIDE

Chromas = npt.NDArray[np.float32]
"""float32 (pictures, cells, 2): Cb and Cr of each cell, 0 where it is grey; at most 128 away from 0."""
PictureNumbers = npt.NDArray[np.int64]
"""int64 (pairs,): for each pair, the number of one of its pictures in `Chromas`."""

CELLS = COLOUR_SIDE * COLOUR_SIDE
COLOURED_MIN = 4.0
"""Chroma from which a cell has a colour: more than JPEG of quality 30 gives to grey."""
COLOURED_SHARE_MIN = 0.5
"""Share of coloured cells from which a picture can be told to have faded. In a drawing with one coloured thing, the
thing itself may have been painted grey."""
THUMBNAIL_PAIRS_AT_ONCE = 4_096
"""Pairs whose thumbnails are in memory at once."""


def chromas_from_hex(digits: list[str]) -> Chromas:
    """Chroma thumbnails as they are stored, 1,024 hex digits each."""
    stored = np.frombuffer(bytes.fromhex("".join(digits)), np.uint8).reshape(-1, CELLS, 2)
    return stored.astype(np.float32) - 128


def colour_distances(chromas: Chromas, i: PictureNumbers, j: PictureNumbers) -> npt.NDArray[np.float32]:
    """Largest chroma distance of a cell, float32 (pairs,), after the more colourful picture was faded to fit the other.

    0 is equal. On the photographs that the bound of 24 was chosen with, 95 % of copies (JPEG, resized, darker, paler,
    grey) stay below it. On 59 others, 1 recoloured picture was still paired when its hue was turned by 60 degrees, and
    none by 120 or 180 (benchmarks.duplicates_quality).
    """
    distances = np.empty(len(i), np.float32)
    for start in range(0, len(i), THUMBNAIL_PAIRS_AT_ONCE):
        pairs = slice(start, start + THUMBNAIL_PAIRS_AT_ONCE)
        distances[pairs] = _distances(chromas[i[pairs]], chromas[j[pairs]])
    return distances


def _distances(first: Chromas, second: Chromas) -> npt.NDArray[np.float32]:
    """`colour_distances` of each picture of `first` to the one of `second` with the same number."""
    second_is_vivid = (first**2).sum(axis=(1, 2)) < (second**2).sum(axis=(1, 2))
    vivid = np.where(second_is_vivid[:, None, None], second, first)
    pale = np.where(second_is_vivid[:, None, None], first, second)
    # The factor by which the vivid picture's chroma fits the pale one's best (least squares), float32 (pairs,).
    power = np.maximum((vivid**2).sum(axis=(1, 2)), np.float32(1e-6))
    fading = np.clip((vivid * pale).sum(axis=(1, 2)) / power, 0, 1)
    # A picture with few coloured cells is not faded: 1 leaves it as it is.
    coloured_share = (np.linalg.norm(vivid, axis=2) >= COLOURED_MIN).mean(axis=1)
    fading = np.where(coloured_share >= COLOURED_SHARE_MIN, fading, np.float32(1))
    differences: npt.NDArray[np.float32] = np.linalg.norm(vivid * fading[:, None, None] - pale, axis=2)
    largest: npt.NDArray[np.float32] = differences.max(axis=1)
    return largest
