"""Draws a demo arena: logs, images and presets in the format of FastChat's server, and the list of planted problems."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from schemas.errors import BadInput
from tasks.demo.images import ImageFolder, PresetFolder, image_pool
from tasks.demo.problems import PLANTERS
from tasks.demo.records import OPEN_SECONDS, OPENS_SECONDS, LogDay, LogLine, LogWriter, Moment, log_days, models
from tasks.demo.traffic import Crowd, PlayedScene, Stage, anonymous_battle, direct_chat
from tasks.demo.words import chance
from tasks.runtime.progress import Advance, progress

EXPECTED = "expected.jsonl"
"""File of planted problems, one JSON object per line."""
SERVER_LOG = "gradio_web_server.log"
"""The web server's own text log, which lies beside the conversation logs and must be ignored."""
_SERVER_LINE = "{} 09:00:00 | INFO | gradio_web_server | add_text. ip: 192.0.2.1\n"
IMAGES_MIN, IMAGES_A_ROOT = 24, 5
"""Ordinary images grow with the square root of the conversations: 118 for 560."""
ONE_ROUND = 1_000
"""Problems are planted once, and once more for every factor of ten above this many conversations."""


def generate_arena(
    folder: Path, *, conversations: int = 240, battles: int = 160, seed: int = 0, images_max: int = 1_000,
    problems: bool = True,
) -> None:  # fmt: skip
    """Write `logs/`, `presets/` and `expected.jsonl` into `folder`; the same arguments give the same bytes.

    `conversations` direct chats and `battles` votes (of two conversations each) are ordinary traffic. Planted
    problems are added to these, each with a line in `expected.jsonl`. At most `images_max` ordinary images are drawn.
    Only the lines of one day are in memory. Raises BadInput when the folder already has an arena or a size is invalid.
    """
    if min(conversations, battles) < 0 or images_max < 1:
        sizes = f"{conversations} conversations, {battles} battles, at most {images_max} images"
        raise BadInput(f"cannot draw {sizes}; give 0 or more conversations and battles, and at least 1 image")
    if (folder / "logs").exists() or (folder / "presets").exists():
        state = "an" if (folder / EXPECTED).is_file() else "an unfinished"
        raise BadInput(f"{str(folder)!r} holds {state} arena already; give another folder, or remove logs and presets")
    days, total = log_days(), conversations + 2 * battles
    images = ImageFolder(folder / "logs" / "serve_images")
    presets = PresetFolder(folder / "presets")
    pool = image_pool(images, presets, min(images_max, max(IMAGES_MIN, int(IMAGES_A_ROOT * math.sqrt(total)))), seed)
    stage = Stage(images, presets, pool, Crowd(total))
    planted = _planted(stage, total, seed) if problems else {}
    writer = LogWriter(folder / "logs", folder / EXPECTED)
    writer.write_fact({"kind": "model_strengths", "models": {model.name: model.strength for model in models()}})
    planned = {day: [*planted.get(day, [])] for day in days}
    scenes: dict[PlayedScene, int] = {direct_chat: conversations, anonymous_battle: battles}
    for scene, total in scenes.items():
        for day, count in zip(days, _split(total, days), strict=True):
            planned[day] += [scene] * count
    with progress("demo arena", sum(map(len, planned.values()))) as advance:
        for day, scenes_of_day in planned.items():
            writer.write_day(_lines(stage, day, scenes_of_day, chance(seed, day.date), advance))
    stage.presets.close()
    (folder / "logs" / SERVER_LOG).write_text("".join(_SERVER_LINE.format(day.date) for day in days))
    writer.close()


def _planted(stage: Stage, conversations: int, seed: int) -> dict[LogDay, list[PlayedScene]]:
    """Day -> scenes of the problems planted on it; each problem gets a random day on which it can happen."""
    rounds = 1 + max(0, int(math.log10(max(1, conversations) / ONE_ROUND)))
    scenes: dict[LogDay, list[PlayedScene]] = {}
    for kind, plant in PLANTERS.items():
        for number in range(rounds):
            rng = chance(seed, kind, number)
            for problem in plant(stage, rng):
                days = [d for d in log_days() if d.era in problem.eras and (d.has_morrow or not problem.needs_morrow)]
                day = rng.choices(days, [day.share for day in days])[0]
                scenes.setdefault(day, []).append(problem.scene)
    return scenes


def _split(total: int, days: Sequence[LogDay]) -> list[int]:
    """`total` divided among the days in proportion to their weights; the parts sum to `total`."""
    whole = sum(day.share for day in days)
    ends = [round(total * sum(day.share for day in days[: index + 1]) / whole) for index in range(len(days))]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def _lines(stage: Stage, day: LogDay, scenes: list[PlayedScene], rng: Random, advance: Advance) -> Iterator[LogLine]:
    """The log lines of the scenes of a day, in random order."""
    rng.shuffle(scenes)
    for number, scene in enumerate(scenes):
        at = day.start + OPENS_SECONDS + (number + rng.random()) / len(scenes) * OPEN_SECONDS
        yield from scene(stage, rng, Moment(day, at))
        advance()
