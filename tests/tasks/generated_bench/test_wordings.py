"""Which descriptions, answers and questions are accepted by their words; what the embedded viewer reads."""

from collections import Counter

import pytest

from schemas.benches.generated import Capability, CheckQuestion, ElementType, GeneratedAspect
from schemas.benches.generated_results import WrittenDescription, WrittenQuestion
from tasks.drawing.scene import scene_in
from tasks.generated_bench.alignment import FailedElement, check_answers, failed_elements
from tasks.generated_bench.aspects import levels
from tasks.generated_bench.descriptions import WordGraph, description_problem, sound_checks, things_asked_about
from tasks.generated_bench.questions import elements_asked, level_problem, question_problem
from tasks.generated_bench.steps import write_texts
from tasks.providers import Providers
from tasks.providers.capabilities import AspectsWanted, DescriptionWanted
from tasks.providers.embedded.scenes.author import SceneAuthor
from tasks.providers.embedded.scenes.pictures import FAULTS, ScenePictures
from tasks.providers.embedded.scenes.viewer import SceneViewer
from tests.generated_bench import settings_for


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("red", ["Red.", "blue", "green"], "equal options"),
        ("red", ["blue"], "2 options"),
        ("red", ["blue", "green", "All of the above"], "an option about other options"),
        ("red", ["blue", "green", ""], "an empty option"),
        ("three", ["3", "two", "one"], "equal options"),
        ("True", ["False"], ""),
        ("red", ["blue", "green", "pink"], ""),
    ],
)
def test_questions_without_one_right_option_are_rejected(right, wrong, problem):
    reply = WrittenQuestion(kind="k", question="What colour is it?", right=right, wrong=wrong)
    assert question_problem(reply, []).startswith(problem) and bool(question_problem(reply, [])) == bool(problem)


CHECKS = [
    CheckQuestion(question="?", element=element, type=type_, choices=[], answer=answer, parent=parent)
    for element, type_, answer, parent in (
        ("ball", "object", "yes", None), ("colour of the balls", "color", "red", 0), ("box", "object", "yes", None),
        ("setting of the scene", "location", "beach", None), ("light of the scene", "other", "sunset", None),
    )
]  # fmt: skip


@pytest.mark.parametrize(
    ("question", "right", "elements", "of_levels"),
    [
        ("What colour are the balls?", "red", 1, {"easy", "medium"}),
        ("Where are the balls seen from the boxes?", "on the left", 2, {"medium", "hard"}),
        ("How many things are there in all?", "five", 2, {"medium", "hard"}),
        ("Where is the scene set?", "beach", 1, {"easy", "medium"}),
        ("Where and when is it?", "a beach at sunset", 2, {"medium", "hard"}),
        ("Which of the balls and boxes at the beach is red?", "the balls", 3, {"hard"}),
        ("What is it?", "a lamp", 0, {"easy", "medium"}),
    ],
)
def test_a_question_is_of_the_levels_that_ask_for_so_many_elements(question, right, elements, of_levels):
    assert elements_asked(f"{question} {right}", CHECKS) == elements
    reply = WrittenQuestion(kind="k", question=question, right=right, wrong=["b", "c", "d"])
    assert {name for name, level in levels().items() if not level_problem(reply, CHECKS, level)} == of_levels


FAILED = {
    type_: FailedElement(element, ElementType(type_), "ball", expected)
    for element, type_, expected in (
        ("ball", "object", "yes"), ("number of the balls", "counting", "three"),
        ("colour of the balls", "color", "red"), ("place of the balls", "spatial", "on the left"),
        ("texture of the balls", "attribute", "rough"),
    )
}  # fmt: skip


@pytest.mark.parametrize(
    ("question", "right", "about"),
    [
        ("What colour are the balls?", "red", {"object", "color"}),
        ("What color do the balls have?", "red", {"object", "color"}),
        ("How many balls are there?", "three", {"object", "counting"}),
        ("How many red balls are there?", "three", {"object", "counting", "color"}),
        ("How many things are there in all?", "five", {"object", "counting"}),
        ("What is the ball's surface?", "rough", set(FAILED)),
        ("Which thing is red?", "a ball", {"object", "color"}),
        ("Which thing is on the left?", "the balls", {"object", "spatial"}),
        ("The green balls are on the left.", "False", {"object", "color", "spatial"}),
        ("What colour is the box?", "red", set()),
    ],
)
def test_a_question_on_a_failed_element_is_rejected_in_any_words(question, right, about):
    reply = WrittenQuestion(kind="k", question=question, right=right, wrong=["b", "c", "d"])
    problems = {type_: question_problem(reply, [failed]) for type_, failed in FAILED.items()}
    assert {type_ for type_, problem in problems.items() if problem} == about
    assert all(FAILED[type_].element in problems[type_] for type_ in about)


def test_a_failed_attribute_belongs_to_the_thing_that_its_question_depends_on():
    def check(element, type_, parent, answer="yes"):
        return CheckQuestion(question="?", element=element, type=type_, choices=[], answer=answer, parent=parent)

    checks = [check("cup", "object", None), check("glaze", "material", 0), check("gloss of it", "attribute", 1)]
    failed = failed_elements(checks, check_answers(checks, ["yes", "yes", "no"]))
    assert [(each.element, each.thing) for each in failed] == [("gloss of it", "cup")]


def test_what_depends_on_a_missing_thing_is_wrong_too_and_wording_does_not_matter():
    def check(question, answer, parent):
        return CheckQuestion(
            question=question, element=question, type="object", choices=[], answer=answer, parent=parent
        )

    checks = [check("cup?", "yes", None), check("colour?", "red", 0), check("how many?", "three", None)]
    assert [each.right for each in check_answers(checks, ["no", "red", "3."])] == [False, False, True]
    assert [each.right for each in check_answers(checks, ["Yes!", "the Red", "THREE"])] == [True, True, True]
    assert sound_checks([check("cup?", "yes", None), check("colour?", "red", 1), checks[2]]) == checks[:1]


def test_words_that_descriptions_share_most_are_kept_out():
    graph = WordGraph()
    assert graph.kept_out() == ()
    for other in ("tree", "bench", "dog", "cat", "hill", "sky", "bird"):
        graph.add("park", [other, "grass"])
    graph.add("cup", ["grass"])
    assert graph.kept_out() == ("park", "grass", "bench")  # floor(ln 8 + 1) = 3: eight neighbours, two, one


def test_descriptions_are_checked_for_whose_left_it_is_and_for_words_kept_out():
    def problem(text, topic="cup", words=("a", "b", "c", "d"), kept_out=()):
        reply = WrittenDescription(description=text, topic_word=topic, key_words=list(words))
        return description_problem(reply, levels()["easy"], kept_out, ["A cup."])

    assert problem("A red cup stands on the left.") is None
    assert problem("A man holds a cup in his left hand.") == "left or right of somebody in the image"
    assert problem("the cup") == "the same as an earlier one"
    assert problem("A red cup.", kept_out=("cup",)) == "a topic word that was to be kept out"
    assert problem("A red cup.", words=("a",)) == "1 key words"
    assert problem("red " * 61).startswith("61 words")
    assert problem("Three red cups.") is None
    for told in ("behind a box", "to the left of the box", "Between two boxes", "above the box", "in front of a house"):
        assert problem(f"A red cup {told}.").endswith("a relation between things"), told
    places = "to the left of the image", "on the right", "in front of a plain white background", "at the top, above all"
    for told in places:
        assert problem(f"A red cup {told}.") is None, told
    for told in ("casts a shadow", "is lit", "stands in the sunlight", "glows", "at dusk"):
        assert problem(f"A red cup {told}.").endswith("about light"), told
    assert problem("A light blue cup and a lightbulb.") is None
    assert problem("Four red cups.") == problem("12 red cups.") == "a number over 3"


def test_more_things_than_a_level_allows_are_asked_for_again_and_then_dropped(tmp_path):
    class Crowded(SceneAuthor):
        def checks(self, description, count):
            found = super().checks(description, count)
            thing = next(each for each in found.checks if each.type == "object")
            more = [thing.model_copy(update={"element": f"{n} kettle"}) for n in "xyz"]
            return found.model_copy(update={"checks": [*more, *found.checks]})

    settings = settings_for(tmp_path, levels=["easy"], general=1, fine=1)
    own = {"author": Crowded(), "text_embedding": Providers()["text_embedding"]}
    assert write_texts.fn(settings, own).counts == {"aspects": 1, "description_rejected": 2}
    checks = [
        CheckQuestion(question="?", element=element, type=kind, choices=[], answer="yes", parent=None)
        for element, kind in (("cup", "object"), ("The cup", "object"), ("dog", "animal"), ("red", "color"))
    ]
    assert things_asked_about(checks) == 2


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


def test_the_same_order_gives_the_same_bytes_and_what_is_no_scene_is_not_drawn():
    text, pictures = describe("hard", 1), ScenePictures()
    assert pictures.draw(text, "a") == pictures.draw(text, "a") != pictures.draw(text, "b")
    assert ScenePictures().draw("A cat on a sofa.", "1").reason == "refused"
