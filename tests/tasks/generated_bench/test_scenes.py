"""What the embedded viewer reads in drawings, measured on what the embedded image model planted."""

from collections import Counter

import pytest

from schemas.benches.generated import Capability, GeneratedAspect
from tasks.drawing.scene import scene_in
from tasks.generated_bench.alignment import check_answers, failed_elements
from tasks.generated_bench.aspects import levels
from tasks.providers.capabilities import AspectsWanted, DescriptionWanted
from tasks.providers.embedded.scenes.author import SceneAuthor
from tasks.providers.embedded.scenes.pictures import FAULTS, ScenePictures
from tasks.providers.embedded.scenes.viewer import SceneViewer

CAPABILITY = Capability(name="spatial", definition="d" * 10, goal="g" * 10, requirement="r" * 10)
DRAWINGS = 100
"""Drawings of each level, half of them with a planted fault."""


def aspect(number: int = 0) -> GeneratedAspect:
    found = SceneAuthor().aspects(AspectsWanted(CAPABILITY, 6, 10)).aspects
    return GeneratedAspect(bench="b", aspect=number, version="1", **found[number % len(found)].model_dump())


def describe(level: str, seed: int) -> str:
    wanted = DescriptionWanted(CAPABILITY, aspect(seed), level, levels()[level], (), f"{level} {seed}")
    return SceneAuthor().describe(wanted).description


@pytest.mark.parametrize(("level", "flagged_min"), [("easy", 0.98), ("medium", 0.98), ("hard", 0.95)])
def test_planted_faults_are_flagged_and_true_drawings_are_not(level, flagged_min, monkeypatch):
    monkeypatch.setenv(FAULTS, "0.5")
    author, pictures, viewer, seen = SceneAuthor(), ScenePictures(), SceneViewer(), Counter()
    for seed in range(DRAWINGS):
        text = describe(level, seed)
        kind, _ = pictures.planted(scene_in(text), str(seed))
        image = ("png", pictures.draw(text, str(seed)))
        checks = author.checks(text, levels()[level].checks).checks
        said = [viewer.look(image, each.question, each.choices) for each in checks]
        seen[kind, bool(failed_elements(checks, check_answers(checks, said)))] += 1
    for kind in ("colour", "number", "thing", "place"):
        flagged, missed = seen[kind, True], seen[kind, False]
        assert flagged >= 5, "too few planted to say anything"
        assert flagged / (flagged + missed) >= flagged_min, kind
    assert seen[None, True] / (seen[None, True] + seen[None, False]) <= 0.03


def test_the_same_order_gives_the_same_bytes_and_another_attempt_another_drawing():
    text, pictures = describe("hard", 1), ScenePictures()
    assert pictures.draw(text, "a") == pictures.draw(text, "a") != pictures.draw(text, "b")


def test_what_is_no_scene_is_refused_and_not_drawn():
    assert ScenePictures().draw("A cat on a sofa.", "1").reason == "refused"
