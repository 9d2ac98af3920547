"""Raters who qualify: those who miss too many items with known answers are left out."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from schemas.errors import BadInput
from schemas.items.review import Review
from tasks.review.sheets import read_rows
from tasks.review_queue import yes_or_no


def qualified(
    reviews: Sequence[Review], right_answers: Mapping[str, bool], least: float, finds_correct: Callable[[str], bool]
) -> tuple[list[Review], int]:
    """The verdicts of raters who have at least this share of the items with known answers right, and some of them.

    With the number of raters who are left out. `right_answers`: item -> whether it is correct. `finds_correct`: whether
    a verdict calls its item so.
    """
    right: dict[str, list[bool]] = {str(review.reviewer): [] for review in reviews}
    for review in reviews:
        if review.item_id in right_answers:
            right[str(review.reviewer)].append(finds_correct(review.verdict) == right_answers[str(review.item_id)])
    out = {rater for rater, tasks in right.items() if not tasks or sum(tasks) / len(tasks) < least}
    return [review for review in reviews if review.reviewer not in out], len(out)


def read_qualification(file: Path) -> dict[str, bool]:
    """Item -> whether it is correct. Raises BadInput for a file without such rows."""
    is_correct = {}
    for where, cells in read_rows(file, ("item", "correct")):
        try:
            is_correct[cells["item"]] = yes_or_no(cells, "correct")
        except BadInput as error:
            raise BadInput(f"{where}: {error}") from None
    if not is_correct:
        raise BadInput(f"{str(file)!r} holds no item; give items and whether they are correct")
    return is_correct
