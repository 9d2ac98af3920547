"""Draws scenes of the grammar, and plants a wrong colour, number, thing or place in a set share of them.

CURATE_PICTURES_FAULTS: the share, 0.15 unless set. The description is all it is told; it is no image model.
"""

import hashlib
import io
import os
from random import Random

from schemas.errors import BadInput
from tasks.drawing.scene import COLOURS, PLACES, THING_KINDS, Scene, draw_scene, scene_in
from tasks.providers.capabilities import Failed

FAULTS, FAULT_SHARE = "CURATE_PICTURES_FAULTS", 0.15
"""Environment variable and default: share of drawings with a planted fault."""
FAULT_KINDS = ("colour", "number", "thing", "place")


class ScenePictures:
    """The stand-in of an image model."""

    calls_at_once = 2

    def __init__(self) -> None:
        self.share = _share()
        self.version = f"scene-pictures-1+faults{self.share:g}"

    def draw(self, told: str, seed: str) -> bytes | Failed:
        """A PNG; the same words and seed give the same bytes."""
        scene = scene_in(told)
        if scene is None:
            return Failed("refused")
        _, drawn_scene = self.planted(scene, seed)
        sink = io.BytesIO()
        draw_scene(drawn_scene, _chance(f"{seed} draw")).save(sink, "PNG", compress_level=3)
        return sink.getvalue()

    def planted(self, scene: Scene, seed: str) -> tuple[str | None, Scene]:
        """(kind of the planted fault or null, the scene as it is drawn)."""
        rng = _chance(f"{seed} fault")
        if rng.random() >= self.share:
            return None, scene
        kind, place = rng.choice(FAULT_KINDS), rng.randrange(len(scene.groups))
        return kind, _with_fault(scene, kind, place, rng)


def _with_fault(scene: Scene, kind: str, place: int, rng: Random) -> Scene:
    group = scene.groups[place]
    if kind == "colour":
        return scene.with_group(place, colour=rng.choice([name for name in COLOURS if name != group.colour]))
    if kind == "number":
        number = rng.choice([n for n in range(1, 5) if n != group.number])
        return scene.with_group(place, number=number)
    if kind == "thing":
        kinds = {other.kind for other in scene.groups}
        return scene.with_group(place, kind=rng.choice([name for name in THING_KINDS if name not in kinds]))
    taken = {other.place for other in scene.groups}
    return scene.with_group(place, place=rng.choice([where for where in PLACES if where not in taken]))


def _share() -> float:
    setting = os.environ.get(FAULTS) or str(FAULT_SHARE)
    try:
        share = float(setting)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise BadInput(f"{FAULTS}={setting!r}: give the share of drawings with a planted fault, 0 to 1")
    return share


def _chance(seed: str) -> Random:
    return Random(int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8).digest()))  # noqa: S311 - no secret
