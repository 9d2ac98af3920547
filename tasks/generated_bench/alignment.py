"""Alignment of an image with its description: check questions answered from the image (TIFA, AutoBench-V)."""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.benches.generated import (
    Alignment,
    CheckAnswer,
    CheckQuestion,
    ElementType,
    GeneratedDescription,
    GeneratedImage,
)
from tasks.generated_bench.wordings import same
from tasks.providers.capabilities import Failed, Viewer

THINGS = frozenset({ElementType.OBJECT, ElementType.HUMAN, ElementType.ANIMAL, ElementType.FOOD})
"""Types of elements that others belong to."""


def align(
    viewer: Viewer, description: GeneratedDescription, drawn: GeneratedImage, image: tuple[str, bytes]
) -> Alignment | Failed:
    """The score of one image. A viewer that fails one question fails the image: no question counts as wrong for it."""
    viewer_answers: list[str] = []
    for check in description.checks:
        answer = viewer.look(image, check.question, check.choices)
        if isinstance(answer, Failed):
            return answer
        viewer_answers.append(answer)
    if not viewer_answers or drawn.image_id is None:
        return Failed("no_check_questions")
    answers = check_answers(description.checks, viewer_answers)
    return Alignment(
        description_id=description.description_id, image_id=drawn.image_id, attempt=drawn.attempt,
        score=sum(checked.right for checked in answers) / len(answers), answers=answers, version=viewer.version,
    )  # fmt: skip


def check_answers(checks: Sequence[CheckQuestion], answers: Sequence[str]) -> list[CheckAnswer]:
    """Each answer compared with the expected one. Where the question it depends on is wrong, it is wrong, too."""
    compared: list[CheckAnswer] = []
    for check, answer in zip(checks, answers, strict=True):
        right = same(answer, check.answer) and (check.parent is None or compared[check.parent].right)
        about = check.model_dump(include={"question", "element", "type"})
        compared.append(CheckAnswer(**about, expected=check.answer, said=answer[:200], right=right))
    return compared


@dataclass(frozen=True)
class FailedElement:
    """One element of a description that its image does not show as described."""

    element: str
    """In the description's words."""
    type: ElementType
    thing: str
    """The thing that it belongs to; the element itself, where that is a thing."""
    expected: str
    """The description's value of it, such as red; yes for a thing."""


def failed_elements(checks: Sequence[CheckQuestion], answers: Sequence[CheckAnswer]) -> list[FailedElement]:
    """Every element that the image does not show as described, once, in order."""
    by_element: dict[str, FailedElement] = {}
    for place, (check, answer) in enumerate(zip(checks, answers, strict=True)):
        if not answer.right:
            # the question about the thing that this one depends on; a thing depends on none but itself
            while checks[place].type not in THINGS and (parent := checks[place].parent) is not None:
                place = parent
            by_element.setdefault(
                check.element, FailedElement(check.element, check.type, checks[place].element, check.answer)
            )
    return list(by_element.values())
