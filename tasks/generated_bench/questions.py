"""Questions written from a description alone: rejected unless exactly one option is right and another call finds it."""

import re
from collections.abc import Sequence

from schemas.benches.generated import (
    Alignment,
    Capability,
    CheckQuestion,
    ElementType,
    GeneratedAspect,
    GeneratedDescription,
    GeneratedQuestion,
    Level,
)
from schemas.benches.generated_results import WrittenQuestion
from tasks.generated_bench.alignment import THINGS, FailedElement, failed_elements
from tasks.generated_bench.aspects import levels
from tasks.generated_bench.wordings import content_words, same, words_of
from tasks.providers.capabilities import NO_QUESTION, Author, Failed, QuestionWanted
from tasks.storage.content_id import combined_id

QUESTION_ATTEMPTS = 3
"""Times a question is asked for before its description is dropped."""
ASPECT_NOT_SHOWN = "what the image shows as described allows no question of the aspect"
"""The problem of a question that an author could not write."""
_OF_OTHERS = re.compile(r"\b(?:all|none|both|neither|any) of (?:the above|these|them|the options)\b", re.IGNORECASE)
_TRUTH = ({"true"}, {"false"})
_PLACES = frozenset({ElementType.SPATIAL, ElementType.LOCATION})
_WORDS: dict[frozenset[ElementType], str] = {
    frozenset({ElementType.COLOR}): (
        "color colour colored coloured hue shade tint red orange yellow green turquoise blue purple violet pink brown "
        "black white grey gray beige golden silver"
    ),
    frozenset({ElementType.COUNTING}): "many number count total most fewest more fewer less " + " ".join(
        str(number) for number in range(21)
    ),
    _PLACES: (
        "where place position location left right top bottom middle center centre above below under over behind front "
        "beside between near next inside outside"
    ),
    frozenset({ElementType.MATERIAL}): "material made wooden wood metal glass plastic stone",
    frozenset({ElementType.SHAPE}): "shape shaped form round square triangular",
    frozenset({ElementType.ACTIVITY}): "doing action activity happening",
    frozenset({ElementType.ATTRIBUTE}): "size sized small large big tall short long",
}  # fmt: skip
"""Types of elements -> words of questions that ask for them."""
_EVERYTHING = content_words("things objects items everything all total")
"""Words that mean every thing of the image."""


def write_question(
    author: Author, capability: Capability, aspect: GeneratedAspect, description: GeneratedDescription,
    alignment: Alignment, attempt: int, seed: int,
) -> GeneratedQuestion | Failed:  # fmt: skip
    """One attempt at the question of a description, accepted or with the problem that rejects it."""
    failed = failed_elements(description.checks, alignment.answers)
    not_shown = tuple(element.element for element in failed)
    chance = f"{seed} {description.description_id} question {attempt}"
    level = levels()[description.level]
    request = QuestionWanted(capability, aspect, description.level, level, description.description, not_shown, chance)
    reply = author.question(request)
    if isinstance(reply, Failed) and reply.reason != NO_QUESTION:
        return reply
    if isinstance(reply, Failed):
        reply, problem = WrittenQuestion(kind="", question="", right="", wrong=[]), ASPECT_NOT_SHOWN
    else:
        problem = question_problem(reply, failed) or level_problem(reply, description.checks, level)
    if not problem:
        options = shuffled([reply.right, *reply.wrong], chance)
        answer = author.solve(description.description, reply.question, options)
        if isinstance(answer, Failed):
            return answer
        problem = "" if same(answer.answer, reply.right) else "another call without the key finds another answer"
    return GeneratedQuestion(
        description_id=description.description_id, image_id=alignment.image_id, attempt=attempt,
        kind=reply.kind.strip().lower()[:40] or "other", question=reply.question.strip(),
        options=[option.strip() for option in (reply.right, *reply.wrong)], problem=problem, version=author.version,
    )  # fmt: skip


def question_problem(reply: WrittenQuestion, failed: Sequence[FailedElement]) -> str:
    """Why a question cannot be used; empty for one that can."""
    options = [reply.right, *reply.wrong]
    if not words_of(reply.question):
        return "no question"
    if any(not words_of(option) for option in options):
        return "an empty option"
    option_words = {tuple(words_of(option)) for option in options}
    if len(option_words) < len(options):
        return "equal options"
    truth = len(options) == 2 and {frozenset(words) for words in option_words} == {frozenset(words) for words in _TRUTH}
    if len(options) != 4 and not truth:
        return f"{len(options)} options: four are needed, or True and False"
    if any(_OF_OTHERS.search(option) for option in options):
        return "an option about other options"
    if about := next((element for element in failed if rests_on(reply.question, reply.right, element)), None):
        return f"about {about.element}, which the image does not show as described"
    return ""


def level_problem(reply: WrittenQuestion, checks: Sequence[CheckQuestion], level: Level) -> str:
    """Why a question is not of its level; empty for one that is."""
    element_count = elements_asked(f"{reply.question} {reply.right}", checks)
    if level.asked_min <= element_count <= level.asked_max:
        return ""
    return f"about {element_count} elements, of {level.asked_min} to {level.asked_max}"


def elements_asked(text: str, checks: Sequence[CheckQuestion]) -> int:
    """Number of a description's elements that a question with its right option names.

    An element depends on no other one: a thing, or the surroundings; these also count by their value, such as beach.
    Words for everything name every thing.
    """
    question_words = content_words(text)
    named_elements = set[frozenset[str]]()
    for check in checks:
        element, value = content_words(check.element), content_words(check.answer) - content_words("yes no")
        every = check.type in THINGS and bool(question_words & _EVERYTHING)
        if check.parent is None and (
            every or element <= question_words or (check.type not in THINGS and value and value <= question_words)
        ):
            named_elements.add(element)
    return len(named_elements)


def rests_on(question: str, right: str, failed: FailedElement) -> bool:
    """Whether a question, with its right option, asks about a failed element; in doubt it does.

    It does when it has all words of the element; when it names a thing that is not shown; and when it names the thing
    of a failed attribute, unless its words ask for another attribute of it alone.
    """
    question_words = content_words(question)
    if content_words(failed.element) <= question_words:
        return True
    of_type = (content_words(words) for types, words in _WORDS.items() if failed.type in types)
    thing = content_words(failed.thing).difference(*of_type)
    if not ((thing and thing <= question_words | content_words(right)) or question_words & _EVERYTHING):
        return False
    if failed.type in THINGS or failed.type is ElementType.OTHER:
        return True
    expected_words = content_words(failed.expected)
    types = {type_ for types, words in _WORDS.items() if question_words & content_words(words) for type_ in types}
    return not types or failed.type in types or (bool(expected_words) and expected_words <= question_words)


def shuffled(options: Sequence[str], chance: str) -> list[str]:
    """The options in an order that depends on `chance` alone."""
    return sorted(options, key=lambda option: combined_id("option", [chance, option]))
