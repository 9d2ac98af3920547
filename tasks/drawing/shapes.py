"""The things that scenes are made of: outlines in a square from -1 to 1, with y pointing down."""

import math
from collections.abc import Mapping

Outline = list[tuple[float, float]]

_BOX = 0.82
_ARM = 0.34


def _around(corners: int, start: float = -math.pi / 2, radii: tuple[float, ...] = (1.0,)) -> Outline:
    """Points around the centre; with several `radii` they take turns, as in a star."""
    angles = (start + math.tau * index / corners for index in range(corners))
    return [(radii[i % len(radii)] * math.cos(a), radii[i % len(radii)] * math.sin(a)) for i, a in enumerate(angles)]


def _heart() -> Outline:
    points = []
    for step in range(60):
        angle = math.tau * step / 60
        x = 16 * math.sin(angle) ** 3
        y = 13 * math.cos(angle) - 5 * math.cos(2 * angle) - 2 * math.cos(3 * angle) - math.cos(4 * angle)
        points.append((x / 17, -y / 17))
    return points


def _moon() -> Outline:
    outer = [(math.cos(a), math.sin(a)) for a in (math.radians(60 + step * 5) for step in range(49))]
    inner = [(0.45 + 0.87 * math.cos(a), 0.87 * math.sin(a)) for a in (math.radians(265 - s * 5) for s in range(35))]
    return [*outer, *inner]


OUTLINES: Mapping[str, Outline] = {
    "ball": _around(48),
    "box": [(-_BOX, -_BOX), (_BOX, -_BOX), (_BOX, _BOX), (-_BOX, _BOX)],
    "kite": [(0, -1), (0.62, 0), (0, 1), (-0.62, 0)],
    "star": _around(10, radii=(1.0, 0.42)),
    "tent": [(0, -0.9), (0.98, 0.8), (-0.98, 0.8)],
    "cross": [
        (-_ARM, -1), (_ARM, -1), (_ARM, -_ARM), (1, -_ARM), (1, _ARM), (_ARM, _ARM),
        (_ARM, 1), (-_ARM, 1), (-_ARM, _ARM), (-1, _ARM), (-1, -_ARM), (-_ARM, -_ARM),
    ],
    "ring": _around(48),
    "moon": _moon(),
    "heart": _heart(),
    "arrow": [(-1, -0.3), (0.15, -0.3), (0.15, -0.85), (1, 0), (0.15, 0.85), (0.15, 0.3), (-1, 0.3)],
}  # fmt: skip
"""Kind of thing -> its outline."""
HOLES: Mapping[str, float] = {"ring": 0.55}
"""Kind of thing with a round hole -> radius of the hole."""
