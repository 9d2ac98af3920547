"""Questions written from a description alone: rejected unless exactly one option is right and another call finds it."""

import re
from collections.abc import Sequence

from schemas.generated import Alignment, Capability, GeneratedAspect, GeneratedDescription, GeneratedQuestion
from schemas.generated_results import WrittenQuestion
from tasks.bench.generate.alignment import FailedElement, failed_elements
from tasks.bench.generate.asked_about import rests_on
from tasks.bench.generate.wordings import same, words_of
from tasks.providers.capabilities import Author, Failed, QuestionWanted
from tasks.storage.content_id import combined_id

ATTEMPTS = 3
"""Times a question is asked for before its description is dropped."""
_OF_OTHERS = re.compile(r"\b(?:all|none|both|neither|any) of (?:the above|these|them|the options)\b", re.IGNORECASE)
_TRUTH = ({"true"}, {"false"})


def write_question(
    author: Author,
    capability: Capability,
    aspect: GeneratedAspect,
    description: GeneratedDescription,
    alignment: Alignment,
    attempt: int,
    seed: int,
) -> GeneratedQuestion | Failed:
    """One attempt at the question of a description, accepted or with the problem that rejects it."""
    failed = failed_elements(description.checks, alignment.answers)
    not_shown = tuple(each.element for each in failed)
    chance = f"{seed} {description.description_id} question {attempt}"
    wanted = QuestionWanted(capability, aspect, description.level, description.description, not_shown, chance)
    reply = author.question(wanted)
    if isinstance(reply, Failed):
        return reply
    problem = question_problem(reply, failed)
    if not problem:
        shown = shuffled([reply.right, *reply.wrong], chance)
        answer = author.solve(description.description, reply.question, shown)
        if isinstance(answer, Failed):
            return answer
        problem = "" if same(answer.answer, reply.right) else "another call without the key finds another answer"
    return GeneratedQuestion(
        description_id=description.description_id,
        image_id=alignment.image_id,
        attempt=attempt,
        kind=reply.kind.strip().lower()[:40] or "other",
        question=reply.question.strip(),
        options=[option.strip() for option in (reply.right, *reply.wrong)],
        problem=problem,
        version=author.version,
    )


def question_problem(reply: WrittenQuestion, failed: Sequence[FailedElement]) -> str:
    """Why a question cannot be used; empty for one that can."""
    options = [reply.right, *reply.wrong]
    if not words_of(reply.question):
        return "no question"
    if any(not words_of(option) for option in options):
        return "an empty option"
    said = {tuple(words_of(option)) for option in options}
    if len(said) < len(options):
        return "equal options"
    truth = len(options) == 2 and {frozenset(words) for words in said} == {frozenset(words) for words in _TRUTH}
    if len(options) != 4 and not truth:
        return f"{len(options)} options: four are needed, or True and False"
    if any(_OF_OTHERS.search(option) for option in options):
        return "an option about other options"
    if about := next((each for each in failed if rests_on(reply.question, reply.right, each)), None):
        return f"about {about.element}, which the image does not show as described"
    return ""


def shuffled(options: Sequence[str], chance: str) -> list[str]:
    """The options in an order that depends on `chance` alone."""
    return sorted(options, key=lambda option: combined_id("option", [chance, option]))
