"""What the stand-in author asks is about its aspect, right by the drawn image, and harder at a harder level.

The subject of a question, its steps and its answer are found here by other rules than the author's: by the words, and
by the coordinates of the things.
"""

import re
from itertools import pairwise
from random import Random

import pytest

from schemas.benches.generated import GeneratedAspect
from schemas.errors import BadInput
from schemas.settings import GenerateSettings
from tasks.drawing.scene import PLACES, THING_KINDS, plural, scene_in
from tasks.generated_bench.aspects import check_author, levels, load_capability
from tasks.generated_bench.bench_state import read_bench
from tasks.generated_bench.questions import ASPECT_NOT_SHOWN, elements_asked
from tasks.generated_bench.wordings import ALPHABET, words_of
from tasks.providers.capabilities import AspectsWanted, DescriptionWanted, Failed, QuestionWanted
from tasks.providers.embedded.scenes.author import SceneAuthor
from tasks.providers.embedded.scenes.pictures import FAULTS, ScenePictures
from tasks.providers.embedded.scenes.scene_questions import questions_of
from tests.generated_bench import NAME, make, settings_for

SUBJECTS = (
    (r"colour", "Colours"),
    (r"what size|true that .* (small|large)", "Sizes"),
    (r"^how many more|together than", "Differences"),
    (r"together\?|with two more", "Totals"),
    (r"the most of", "Majorities"),
    (r"^how many", "Numbers"),
    (r"seen from|on which side", "Relations"),
    (r"setting|scene set", "Surroundings"),
    (r"^where", "Places"),
    (r"furthest|highest|lowest", "Outermost things"),
    (r"^what (is|stands)", "What is where"),
)
"""Words of a question -> its subject; the first that fits."""
FACTS = (
    "further to the left than", "further to the right than", "higher up than", "lower down than",
    "furthest to the left", "furthest to the right", "highest up", "lowest down", "to the left of", "to the right of",
    "above", "below",
    "seen from", "which side", "the most", "the fewest", "which setting", "which time", "scene set",
    *sorted(PLACES, key=len, reverse=True), *map(plural, THING_KINDS),
)  # fmt: skip
"""What one has to look for, each one step."""
GRID = dict(enumerate(PLACES))
CASES = [
    (capability, level)
    for capability in ("basic", "spatial", "reasoning", "semantic")
    for level in ("easy", "medium", "hard")
    if (capability, level) != ("semantic", "easy")
]
DRAWN = 3
"""Images of each fine aspect, level and seed."""


def subject(question):
    return next(name for words, name in SUBJECTS if re.search(words, question.lower()))


def steps(question):
    """Number of facts to look for."""
    return len(re.findall("|".join(FACTS), question))


def at(group):
    """(x, y) of a group's cell, from the upper left."""
    place = next(cell for cell, name in GRID.items() if name == group.place)
    return place % 3, place // 3


def stands(group, where, other):
    (x, y), (other_x, other_y) = at(group), at(other)
    return {
        "to the left of": y == other_y and x < other_x, "to the right of": y == other_y and x > other_x,
        "above": x == other_x and y < other_y, "below": x == other_x and y > other_y,
        "further to the left than": x < other_x, "further to the right than": x > other_x,
        "higher up than": y < other_y, "lower down than": y > other_y,
    }[where]  # fmt: skip


def extreme(groups, direction):
    """Kinds of the groups that are furthest in a direction."""
    axis, side = {"left": (0, 1), "right": (0, -1), "up": (1, 1), "down": (1, -1)}[direction.split()[-1]]
    best = min(side * at(group)[axis] for group in groups)
    return [group.kind for group in groups if side * at(group)[axis] == best]


RELATED = r"(to the left of|to the right of|above|below) the (\w+)"
THAN = r"of what is (.+ than) the (\w+), what is"


def truth(scene, question):
    """Every answer that the scene allows, by the words of the question; one of a sound question."""
    asked, by_noun = question.lower(), {plural(group.kind): group for group in scene.groups}
    named = [by_noun[word] for word in re.findall(r"\w+", asked) if word in by_noun]
    about = subject(question)
    chosen = list(scene.groups)
    if narrowed := re.match(THAN, asked):
        chosen = [g for g in chosen if stands(g, narrowed[1], by_noun[narrowed[2]])]
    elif "stands" in asked:
        chosen = [
            g for g in chosen if all(stands(g, where, by_noun[noun]) for where, noun in re.findall(RELATED, asked))
        ]
    if about in ("Colours", "Numbers", "Sizes", "Places", "What is where"):
        name = {"Colours": "colour", "Numbers": "number", "Sizes": "size", "Places": "place"}.get(about, "kind")
        if "true that" in asked:
            return [str(named[0].size == asked.rstrip("?").split()[-1])]
        if "stands" in asked:
            beside = [str(getattr(named[2], name))] if len(named) > 2 else []
            return [" and ".join([str(getattr(g, name)), *beside]) for g in chosen]
        places = re.findall(r"is ((?:at|on|in) the [a-z ]+)", asked)
        shown = [next(g for g in scene.groups if g.place == place) for place in places] or named
        return [" and ".join(str(getattr(g, name)) for g in shown)]
    if about == "Relations":
        seen_from = named[-1] if "seen" in asked else named[0]
        moved = chosen if "stands" in asked else named[:1] if "seen" in asked else [g for g in chosen if g != named[0]]
        relations = ("to the left of", "to the right of", "above", "below")
        return [where for g in moved for where in relations if stands(g, where, seen_from)]
    if about == "Surroundings":
        return [f"{scene.setting} and {scene.light}" if "time" in asked else scene.setting]
    numbers = [group.number for group in named]
    if about == "Totals":
        return [str(sum(numbers) + 2 * ("two more" in asked))]
    if about == "Differences":
        return [str(6 - numbers[0] if "make six" in asked else sum(numbers[:-1]) - numbers[-1])]
    if about == "Majorities":
        ends = (max, min) if "fewest" in asked else (max,)
        kinds = [[g.kind for g in chosen if g.number == end(o.number for o in chosen)] for end in ends]
    else:
        directions = re.findall(r"(furthest to the \w+|highest up|lowest down)", asked)
        kinds = [extreme(chosen, direction) for direction in directions]
    return (
        [kinds[0][0] if len(kinds) == 1 else " and ".join(k[0] for k in kinds)]
        if all(len(k) == 1 for k in kinds)
        else []
    )


def wanted_of(capability, level, general=1, fine=9):
    shipped = load_capability(capability)
    return AspectsWanted(shipped, general, fine, levels={level: levels()[level]})


def aspects_of(capability, level):
    general = 1 if capability == "semantic" else 4
    found = SceneAuthor().aspects(wanted_of(capability, level, general)).aspects
    assert len(found) == general * 9
    return [GeneratedAspect(bench="b", aspect=n, version="1", **each.model_dump()) for n, each in enumerate(found)]


@pytest.mark.parametrize(("capability", "level"), CASES)
def test_every_question_is_about_its_aspect_and_has_one_right_option(capability, level):
    author, shipped, limits = SceneAuthor(), load_capability(capability), levels()[level]
    for aspect in aspects_of(capability, level):
        for seed in range(DRAWN):
            order = f"{capability} {level} {seed}"
            described = author.describe(DescriptionWanted(shipped, aspect, level, limits, (), f"{order} {aspect.name}"))
            text = described.description
            asked = author.question(QuestionWanted(shipped, aspect, level, limits, text, (), order))
            checks, scene = author.checks(text, limits.checks).checks, scene_in(text)
            assert subject(asked.question) == aspect.general, asked.question
            answers = [tuple(words_of(answer)) for answer in truth(scene, asked.question)]
            assert answers == [tuple(words_of(asked.right))], (text, asked)
            assert not {tuple(words_of(wrong)) for wrong in asked.wrong} & set(answers), (text, asked)
            assert len(asked.wrong) == (1 if asked.right in ("True", "False") else 3) == len(set(asked.wrong))
            assert author.solve(text, asked.question, ()).answer == asked.right
            named = elements_asked(f"{asked.question} {asked.right}", checks)
            assert limits.asked_min <= named <= limits.asked_max, asked.question


@pytest.mark.parametrize("capability", ["basic", "spatial", "reasoning", "semantic"])
def test_every_level_asks_what_no_other_does_in_more_steps(capability):
    author, shipped, kind_of = SceneAuthor(), load_capability(capability), {}
    for aspect in aspects_of(capability, "hard"):
        for seed in range(DRAWN):
            wanted = DescriptionWanted(
                shipped, aspect, "hard", levels()["hard"], (), f"{capability} {seed} {aspect.name}"
            )
            scene = scene_in(author.describe(wanted).description)
            if aspect.general not in kind_of:
                told = author.describe(wanted).description
                question = author.question(QuestionWanted(shipped, aspect, "hard", levels()["hard"], told, (), "0"))
                kind_of[aspect.general] = question.kind
            by_level = {
                level: {q.question for q in questions_of(scene, kind_of[aspect.general], level, Random(seed))}
                for level in levels()
            }
            assert by_level["hard"], "a hard image has a hard question"
            assert not by_level["hard"] & by_level["medium"] and not by_level["medium"] & by_level["easy"]
            fewest = [{steps(question) for question in by_level[level]} for level in ("easy", "medium", "hard")]
            assert all(max(low) < min(high) for low, high in pairwise(fewest) if low and high)


@pytest.mark.parametrize("capability", ["basic", "spatial", "reasoning"])
def test_items_are_right_by_the_images_as_they_were_drawn_faults_and_all(capability, tmp_path, monkeypatch):
    monkeypatch.setenv(FAULTS, "0.4")
    settings = settings_for(tmp_path / "store", capability=capability, general=4, fine=2, per_aspect=2)
    store, pictures = make(settings), ScenePictures()
    made = read_bench(store, NAME)
    planted = 0
    described = {each.description.description_id: each for each in made.progress}
    for item in made.items:
        progress = described[item.description_id]
        order = f"{settings.seed} {item.description_id} {progress.images[-1].attempt}"
        fault, shown = pictures.planted(scene_in(progress.description.description), order)
        planted += fault is not None
        key = item.options[ALPHABET.index(item.key)]
        assert subject(item.question) == item.general
        assert [words_of(answer) for answer in truth(shown, item.question)] == [words_of(key)], (fault, item.question)
    assert planted >= 3 and len(made.items) >= 40
    reasons = {each.questions[-1].problem for each in made.progress if each.outcome.reason == "question"}
    assert reasons <= {ASPECT_NOT_SHOWN} | {reason for reason in reasons if reason.startswith("about ")}


def test_an_image_that_shows_nothing_of_an_aspect_as_described_gets_no_question_about_something_else():
    author, aspect = SceneAuthor(), aspects_of("spatial", "hard")[0]
    shipped, limits = load_capability("spatial"), levels()["hard"]
    text = author.describe(DescriptionWanted(shipped, aspect, "hard", limits, (), "1")).description
    failed = tuple(f"place of the {plural(group.kind)}" for group in scene_in(text).groups)
    assert author.question(QuestionWanted(shipped, aspect, "hard", limits, text, failed, "1")) == Failed(
        "no_question_left"
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"capability": "atmospheric"}, "cannot ask about 'atmospheric', only basic, spatial, semantic, reasoning"),
        ({"capability": "spatial", "general": 5}, "can ask about 4 general aspects of 'spatial' at easy, medium, hard"),
        ({"capability": "semantic", "general": 1}, "not 1: nothing (Surroundings not at easy)"),
        ({"capability": "basic", "fine": 10}, "has 9 fine aspects at easy, medium, hard, not 10"),
    ],
)
def test_an_aspect_that_cannot_be_asked_about_is_refused_before_anything_is_written(changes, told, tmp_path):
    settings = settings_for(tmp_path / "store", **changes)
    with pytest.raises(BadInput, match=re.escape(told)):
        make(settings)
    assert not (tmp_path / "store").exists()


def test_the_command_refuses_in_one_line_and_makes_no_store(curate, refused, tmp_path):
    command = ("bench", "generate", "atmospheric", "--store", tmp_path / "store", "--bench", "moods")
    for more in ((), ("--dry-run",)):
        assert "cannot ask about 'atmospheric'" in refused(*command, *more)
        assert not (tmp_path / "store").exists()
    able = GenerateSettings(capability="semantic", general=1, levels=["medium", "hard"], fine=10)
    check_author(SceneAuthor(), able)
