"""What a stage offers to have something reviewed, and how the pages name its items."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from schemas.review import Choice, Waiting
from tasks.storage.content_id import combined_id
from tasks.storage.tables import Store

NONE = "none"
"""Verdict of a queue with several choices when none of them applies."""


class ReviewQueue(Protocol):
    """Items of one kind that wait for people, and the verdicts that they may give. Stages need not import it."""

    @property
    def name(self) -> str:
        """In links and in the column `queue`: lower-case letters and underscores."""
        ...

    @property
    def title(self) -> str:
        """On the pages."""
        ...

    @property
    def about(self) -> str:
        """What is asked, and what becomes of a verdict, in a sentence or two."""
        ...

    @property
    def choices(self) -> Sequence[Choice]:
        """The allowed verdicts with their keys; `n`, `o` and `u` are the pages' own keys."""
        ...

    @property
    def many(self) -> bool:
        """Whether several choices may hold at once; the verdict is then their names, or `none`."""
        ...

    @property
    def tables(self) -> Sequence[str]:
        """Tables that the items are made from; a change of one has them made again."""
        ...

    def waiting(self, store: Store) -> Sequence[Waiting]:
        """The items, in the order in which they are asked about; also those that were reviewed."""
        ...


class Subject(NamedTuple):
    """What a verdict holds for."""

    item_id: str
    content_id: str
    reasons: tuple[str, ...]


def subject_of(item: Waiting) -> Subject:
    """What a verdict on an item holds for."""
    return Subject(item.item_id, item.content_id, item.reasons)


def fingerprint(item: Waiting) -> str:
    """A hash of what an item shows and asks; it comes back with the verdict."""
    texts = [stretch.text + "\0" + stretch.hidden for text in item.texts for stretch in text.stretches]
    asked = [item.item_id, item.content_id, *item.reasons, item.question]
    return combined_id("shown for review", [*asked, *item.image_ids, *texts])
