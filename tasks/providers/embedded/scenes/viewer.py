"""Answers the grammar's questions from pixels alone. It reads the drawings of `pictures` and no other image."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tasks.drawing.scene import Scene
from tasks.images.decode import decode_stored
from tasks.providers.capabilities import Failed
from tasks.providers.embedded.scenes.read_scene import read_scene
from tasks.providers.embedded.scenes.scene_questions import solved

NOTHING_SEEN = "not shown"
"""The answer about a thing that is not in the image."""


class SceneViewer:
    """The stand-in of a model that sees."""

    version = "scene-viewer-1"
    calls_at_once = 2

    def look(self, image: tuple[str, bytes], question: str, choices: Sequence[str]) -> str | Failed:
        """The answer; `not shown` for what it does not see or understand."""
        return solved(_seen(image), question) or NOTHING_SEEN


@lru_cache(maxsize=256)
def _seen(image: tuple[str, bytes]) -> Scene:
    kind, content = image
    return read_scene(np.asarray(decode_stored(content, kind, "").rgb, np.uint8))
