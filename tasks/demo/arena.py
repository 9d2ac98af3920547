"""Draws a demo arena: raw logs, pictures and presets as FastChat's server leaves them, and the truth about them."""

import math
from pathlib import Path
from random import Random

from schemas.errors import BadInput
from tasks.demo.chance import chance
from tasks.demo.dialogue import Phrasebook
from tasks.demo.log_writer import LogWriter
from tasks.demo.models import models
from tasks.demo.people import Crowd
from tasks.demo.picture_folder import PictureFolder
from tasks.demo.picture_pool import PicturePool
from tasks.demo.preset_folder import PresetFolder
from tasks.demo.schedule import Bill, planted
from tasks.demo.server_log import write_server_log
from tasks.demo.stage import Stage
from tasks.demo.timeline import OPEN_SECONDS, OPENS_SECONDS, LogDay, Moment, log_days, split
from tasks.running.progress import Advance, progress

EXPECTED = "expected.jsonl"
"""What was planted, one fact a line."""
PICTURES_MIN, PICTURES_A_ROOT = 24, 7
"""Ordinary pictures grow with the square root of the conversations: 260 for 1,400."""


def generate_arena(
    folder: Path,
    *,
    conversations: int = 600,
    battles: int = 400,
    seed: int = 0,
    pictures_max: int = 1_000,
    problems: bool = True,
) -> None:
    """Write `logs/`, `presets/` and `expected.jsonl` into `folder`; the same arguments give the same bytes.

    `conversations` direct chats and `battles` votes, with two conversations each, are ordinary traffic. Planted
    problems come on top, each with a line in `expected.jsonl` that says what was planted where. Lines are streamed
    in the order of their times, so memory does not grow with the numbers. At most `pictures_max` ordinary pictures
    are drawn. Raises BadInput when the folder holds an arena already or a number makes no sense.
    """
    _check(folder, conversations, battles, pictures_max)
    days, total = log_days(), conversations + 2 * battles
    stage = _stage(folder, total, pictures_max, seed)
    found = planted(stage, total, seed) if problems else {}
    writer = LogWriter(folder / "logs", folder / EXPECTED)
    writer.state_fact({"kind": "model_strengths", "models": {model.name: model.strength for model in models()}})
    counts = zip(days, split(conversations, days), split(battles, days), strict=True)
    bills = [(day, Bill(stage, chats, votes, found.get(day, []))) for day, chats, votes in counts]
    with progress("demo arena", sum(bill.count for _, bill in bills)) as advance:
        for day, bill in bills:
            _play(writer, day, bill, chance(seed, day.date), advance)
    stage.presets.close()
    write_server_log(folder / "logs", days, stage.crowd, chance(seed, "server"))
    writer.close()


def _check(folder: Path, conversations: int, battles: int, pictures_max: int) -> None:
    if min(conversations, battles) < 0 or pictures_max < 1:
        given = f"{conversations} conversations, {battles} battles, at most {pictures_max} pictures"
        raise BadInput(f"cannot draw {given}; give 0 or more conversations and battles, and at least 1 picture")
    if (folder / "logs").exists() or (folder / "presets").exists():
        state = "an" if (folder / EXPECTED).is_file() else "an unfinished"
        raise BadInput(f"{str(folder)!r} holds {state} arena already; give another folder, or remove logs and presets")


def _stage(folder: Path, total: int, pictures_max: int, seed: int) -> Stage:
    pictures = PictureFolder(folder / "logs" / "serve_images")
    size = min(pictures_max, max(PICTURES_MIN, int(PICTURES_A_ROOT * math.sqrt(total))))
    pool = PicturePool(pictures, size, seed)
    return Stage(pictures, PresetFolder(folder / "presets"), pool, Phrasebook(), Crowd(total))


def _play(writer: LogWriter, day: LogDay, bill: Bill, rng: Random, advance: Advance) -> None:
    for number, scene in enumerate(bill.scenes(rng)):
        at = day.start + OPENS_SECONDS + (number + rng.random()) / bill.count * OPEN_SECONDS
        writer.advance(at)
        writer.push(scene(rng, Moment(day, at)))
        advance()
    writer.end_day()
