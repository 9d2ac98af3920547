"""Answers the grammar's questions from pixels alone, of the drawings of `pictures` and no other image.

Strongly coloured patches are things, pale ones the setting. `SceneModel` is three models to
try a benchmark made on demand with: one reads drawings, one guesses, one never looks. None is ranked in public.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, lru_cache

import cv2
import numpy as np
import numpy.typing as npt

from schemas.asked_model import AskedModel
from schemas.errors import BadInput, known_values
from tasks.drawing.scene import (
    BRIGHTNESS,
    COLOURS,
    GROUND,
    HOLES,
    OUTLINES,
    PLACES,
    SCENE_SIDE,
    SKY,
    THING_RADIUS,
    Group,
    Scene,
    scene_in,
)
from tasks.images.decode import Pixels, decode_stored
from tasks.providers.capabilities import BatchQueue, ChatMessage, Failed, Reply
from tasks.providers.embedded.scenes.scene_questions import solved
from tasks.storage.tables import Store

NOTHING_SEEN = "not shown"
"""The answer about a thing that is not in the image."""

_STRONG = 110
"""Saturation, 0 to 255, from which a pixel belongs to a thing."""
_DARK = 40
_AREA_MIN = 60
"""Pixels of the smallest patch that counts as a thing."""
_MASK_SIDE = 32
_EDGE = 14
"""Rows of pixels at the upper and the lower edge that show sky and ground."""


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


@dataclass(frozen=True)
class Thing:
    """One patch."""

    kind: str
    colour: str
    size: str
    place: str


def read_scene(pixels: Pixels) -> Scene:
    """The groups of things, the setting and the light that an image shows. `pixels`: uint8 (height, width, 3), RGB."""
    if pixels.shape[:2] != (SCENE_SIDE, SCENE_SIDE):
        pixels = np.asarray(cv2.resize(pixels, (SCENE_SIDE, SCENE_SIDE), interpolation=cv2.INTER_AREA), np.uint8)
    hsv = np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV_FULL), np.uint8)
    strong = (hsv[..., 1] >= _STRONG) & (hsv[..., 2] >= _DARK)
    setting, light = _setting(pixels, strong)
    return Scene(_groups(_things(hsv, strong)), setting, light)


def _things(hsv: Pixels, strong: npt.NDArray[np.bool_]) -> list[Thing]:
    count, labels, stats, _ = cv2.connectedComponentsWithStats(strong.astype(np.uint8), connectivity=8)
    things = []
    for label in range(1, count):
        left, top, wide, high, area = (int(value) for value in stats[label])
        if area < _AREA_MIN:
            continue
        mask = labels[top : top + high, left : left + wide] == label
        hues = hsv[top : top + high, left : left + wide, 0][mask]
        middle_x, middle_y = left + wide / 2, top + high / 2
        cell = min(2, int(middle_y / (SCENE_SIDE / 3))) * 3 + min(2, int(middle_x / (SCENE_SIDE / 3)))
        size = "large" if max(wide, high) / 2 > (THING_RADIUS["small"] + THING_RADIUS["large"]) / 2 else "small"
        things.append(Thing(_kind(mask), _colour(hues), size, PLACES[cell]))
    return things


def _groups(things: Sequence[Thing]) -> tuple[Group, ...]:
    """Things of one kind are one group, with the colour, size and place of most of them."""
    groups = []
    for kind in sorted({thing.kind for thing in things}):
        same = [thing for thing in things if thing.kind == kind]
        most = {
            name: Counter(getattr(t, name) for t in same).most_common(1)[0][0] for name in ("colour", "size", "place")
        }
        groups.append(Group(kind, len(same), **most))
    return tuple(groups)


def _kind(mask: npt.NDArray[np.bool_]) -> str:
    """The kind whose outline overlaps most with the patch, both scaled to one box; the box's sides count, too."""
    seen = cv2.resize(mask.astype(np.float32), (_MASK_SIDE, _MASK_SIDE), interpolation=cv2.INTER_LINEAR) > 0.5
    aspect = mask.shape[1] / mask.shape[0]

    def fit(kind: str) -> float:
        template, outline_aspect = _templates()[kind]
        both = np.logical_and(seen, template).sum() / max(1, np.logical_or(seen, template).sum())
        return float(both - 0.5 * abs(np.log(aspect / outline_aspect)))

    return max(OUTLINES, key=fit)


@cache
def _templates() -> dict[str, tuple[npt.NDArray[np.bool_], float]]:
    """Kind -> (its outline filled and scaled to a square, width / height)."""
    templates = {}
    for kind, outline in OUTLINES.items():
        points = np.array(outline, np.float64)
        low, high = points.min(axis=0), points.max(axis=0)
        scaled = ((points - low) / (high - low) * (16 * _MASK_SIDE - 1)).astype(np.int32)
        drawn = np.zeros((16 * _MASK_SIDE, 16 * _MASK_SIDE), np.uint8)
        cv2.fillPoly(drawn, [scaled], 1)
        if hole := HOLES.get(kind):
            cv2.circle(drawn, (8 * _MASK_SIDE, 8 * _MASK_SIDE), int(hole * 8 * _MASK_SIDE), 0, -1)
        small = cv2.resize(drawn.astype(np.float32), (_MASK_SIDE, _MASK_SIDE), interpolation=cv2.INTER_AREA)
        templates[kind] = (small > 0.5, float((high - low)[0] / (high - low)[1]))
    return templates


def _colour(hues: npt.NDArray[np.uint8]) -> str:
    """The colour whose hue is nearest to the mean of the patch's, on the circle of hues."""
    angles = hues.astype(np.float64) / 255 * 2 * np.pi
    mean = float(np.arctan2(np.sin(angles).mean(), np.cos(angles).mean()) / (2 * np.pi)) % 1
    return min(COLOURS, key=lambda name: abs((COLOURS[name] - mean + 0.5) % 1 - 0.5))


def _setting(pixels: Pixels, strong: npt.NDArray[np.bool_]) -> tuple[str, str]:
    """The setting and light whose sky and ground have the colours of the image's edges."""
    edges = [_mean(pixels[part], strong[part]) for part in (slice(0, _EDGE), slice(-_EDGE, None))]

    def distance(setting: str, light: str) -> float:
        expected_colours = (np.array(colour[setting]) * BRIGHTNESS[light] for colour in (SKY, GROUND))
        return float(sum(np.abs(seen - expected).sum() for seen, expected in zip(edges, expected_colours, strict=True)))

    setting, light = min(((s, li) for s in SKY for li in BRIGHTNESS), key=lambda pair: distance(*pair))
    return setting, light


def _mean(pixels: Pixels, strong: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    pale = pixels[~strong]
    return np.asarray(np.median(pale, axis=0) if len(pale) else np.zeros(3), np.float64)


VIEWER_MODELS = ("scene-viewer", "random", "blind")
_OPTION = re.compile(r"^([A-D])\. (.+)$", re.MULTILINE)
_QUESTION = re.compile(r"^[^\n]+\?$", re.MULTILINE)


class SceneModel:
    """One of MODELS, as an entry of a models file names it."""

    service = ""
    calls_at_once = 2

    def __init__(self, asked: AskedModel) -> None:
        if asked.model not in VIEWER_MODELS:
            raise BadInput(
                f"model {asked.name!r}: vendor embedded: unknown model {known_values(asked.model, VIEWER_MODELS)}"
            )
        self._model = asked.model
        self.version = asked.version

    def chat(self, messages: Sequence[ChatMessage], about: str = "") -> Reply | Failed:
        """A letter in brackets."""
        text, options = messages[-1].text, dict(_OPTION.findall(messages[-1].text))
        if not options:
            return Reply("I only answer questions with options.", "complete", 0)
        answer = None if self._model == "random" else self._answer(text, messages[-1])
        chosen = next((letter for letter, option in options.items() if option == answer), None)
        if chosen is None and self._model == "scene-viewer":
            return Reply("I cannot tell.", "complete", 0)
        return Reply(f"[{chosen or self._guess(text, options)}]", "complete", 0)

    def together(self, store: Store, hours: float) -> AbstractContextManager[BatchQueue]:
        """There are no batches."""
        raise BadInput("--batch: a model of vendor embedded has no batches; leave the option out")

    def _answer(self, text: str, message: ChatMessage) -> str | None:
        """By a description in the text, or by the image; null when neither says it."""
        question = (_QUESTION.findall(text) or [""])[-1]
        if scene := scene_in(text):
            return solved(scene, question)
        if self._model == "blind" or not message.images:
            return None
        seen = SceneViewer().look(message.images[0], question, ())
        return None if isinstance(seen, Failed) else seen

    def _guess(self, text: str, options: dict[str, str]) -> str:
        """The longest option, or any by a hash of the text."""
        if self._model == "blind":
            return max(options, key=lambda letter: len(options[letter]))
        return sorted(options)[hashlib.blake2b(text.encode()).digest()[0] % len(options)]
