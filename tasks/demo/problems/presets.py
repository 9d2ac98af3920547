"""Pictures of the preset collection, used in chats. Nothing in a log line says that they are presets."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import PIL.Image

from tasks.demo.drawings import FAMILIES
from tasks.demo.log_writer import LogLine
from tasks.demo.problems.plan import EXACT, Planter, Problem, upload
from tasks.demo.stage import Stage, chat_lines
from tasks.demo.timeline import Era, Moment

_DATASETS = {"Memes": "meme", "Floorplans": "floor_plan", "Websites": "dashboard", "Charts": "bar_chart"}
_UNUSED = 2


def presets(stage: Stage, rng: Random) -> Iterator[Problem]:
    """One chat about a preset of each dataset in the last era, one in the era of re-encoded files, and unused ones."""
    for dataset, family in _DATASETS.items():
        file = stage.presets.add(FAMILIES[family](rng).image, dataset)
        yield Problem(partial(_picked, stage, dataset, file), EXACT)
    file = stage.presets.add(FAMILIES["comic"](rng).image, "Memes")
    yield Problem(partial(_picked, stage, "Memes", file), frozenset({Era.JPG}))
    for _ in range(_UNUSED):
        stage.presets.add(FAMILIES["meme"](rng).image, "Memes")


def _picked(stage: Stage, dataset: str, file: Path, rng: Random, moment: Moment) -> list[LogLine]:
    with PIL.Image.open(file) as image:
        picture = upload(stage.pictures.save(image, moment.era))
    talk = stage.talk(rng, picture, [f"What is the point of this example from {dataset.lower()}?"])
    fact = {"kind": "preset", "conversation_id": talk.conv_id, "dataset": dataset}
    return chat_lines(rng, talk, moment, stage.crowd.anybody(rng), [fact])


PLANTERS: dict[str, Planter] = {"preset": presets}
"""Kind -> what plants it."""
