"""The interface of a queue: items that wait for people, the verdicts that they may give, and how items are named."""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from schemas.benches.bench import CaseReference
from schemas.errors import BadInput, known_values
from schemas.items.review import Choice, Review, ShownText, Stretch, Waiting
from tasks.runtime.untrusted import one_line
from tasks.signals.tag_evaluation import drawn
from tasks.storage.content_id import combined_id
from tasks.storage.tables import Store

NONE = "none"
"""Verdict of a queue with several choices when none of them applies."""
_YES = {"yes": True, "y": True, "true": True, "1": True, "no": False, "n": False, "false": False, "0": False}


class Listed(NamedTuple):
    """Texts and images that a sheet has beside the item's own texts, because no sheet has the whole conversation."""

    texts: Sequence[ShownText] = ()
    """Texts, as they would be released."""
    image_ids: Sequence[str] = ()
    """Images, as they would be released."""


class SheetLine(NamedTuple):
    """A line of a filled-in sheet."""

    where: str
    """File and number."""
    cells: Mapping[str, str]
    """Column -> text without spaces around it."""


class ReviewQueue(Protocol):
    """Items of one kind that wait for people, and the verdicts that they may give."""

    name: str
    """In links and in the column `queue`: lower-case letters and underscores."""
    title: str
    """On the pages."""
    about: str
    """Question, and use of a verdict, in a sentence or two."""
    choices: Sequence[Choice]
    """The allowed verdicts with their keys; `n`, `o` and `u` are the pages' own keys."""
    many: bool = False
    """Whether several choices may hold at once; the verdict is then their names, or `none`."""
    tables: Sequence[str]
    """Tables that the items are made from; a change of one has them made again."""
    needs_rater: bool = False
    """Whether a verdict of a sheet needs to say whose it is."""
    named_by_file: bool = False
    """Whether a sheet without a reviewer is its file's namesake's."""
    among: frozenset[str] | None = None
    """Ids of conversations and battles, about which alone people are asked; None for all that wait."""

    def selected(self, store: Store) -> Sequence[Waiting]:
        """The items of `waiting`, of those only that are `among`."""
        items = self.waiting(store)
        if self.among is None:
            return items
        # An item is of a battle, of a conversation, or of both.
        return [item for item in items if {item.conversation_id, item.battle_id, item.item_id} & self.among]

    @abstractmethod
    def waiting(self, store: Store, among: Collection[str] | None = None) -> Sequence[Waiting]:
        """The items, in the order in which they are asked about; also those that were reviewed.

        With `among`, those of the items with these names on a sheet that a verdict can be stored on, whether or not
        they were drawn or still wait; others may be with them: the sheet looks its own up by name.
        """
        ...

    def listed(self, store: Store, items: Sequence[Waiting]) -> Mapping[str, Listed]:
        """Item id -> what a sheet has of it beside its texts."""
        return {}

    def sheet_name(self, item: Waiting) -> str:
        """The item's name on a sheet: its id, unless that says what is to stay hidden."""
        return item.item_id

    def rater(self, store: Store, name: str) -> str:
        """The reviewer that is stored for a name on a sheet."""
        return name

    def earlier(self, store: Store, cells: Mapping[str, str], sheet: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
        """The cells `verdict` and `reasons` of a line of an earlier version's sheet, or none. Raises BadInput.

        `sheet`: the cells of all its lines.
        """
        return {}

    def written(self, store: Store, lines: Sequence[SheetLine], now: datetime) -> Sequence[CaseReference]:
        """References that people wrote on lines of this queue beside their verdicts. Raises BadInput."""
        return ()


class DrawnQueue(ReviewQueue):
    """A queue that asks about a sample, drawn by hash."""

    def __init__(self, sample: int, seed: int) -> None:
        self._sample, self._seed = sample, seed

    def drawn(self, ids: Iterable[str], among: Collection[str] | None) -> list[str]:
        """A sample of ids by hash, or all of them that are `among` others."""
        return drawn(ids, self._sample, self._seed) if among is None else [each for each in ids if each in among]


def plain(heading: str, text: str) -> ShownText:
    """A text without a marked stretch."""
    return ShownText(heading, (Stretch(text),))


class Subject(NamedTuple):
    """Item, content and reasons that a verdict holds for."""

    item_id: str
    content_id: str
    reasons: tuple[str, ...]


def subject_of(item: Waiting) -> Subject:
    """Subject of a verdict on an item."""
    return Subject(item.item_id, item.content_id, item.reasons)


def item_fingerprint(item: Waiting) -> str:
    """A hash of what an item shows and asks; it comes back with the verdict."""
    texts = [stretch.text + "\0" + stretch.hidden for text in item.texts for stretch in text.stretches]
    asked = [item.item_id, item.content_id, *item.reasons, item.question]
    return combined_id("shown for review", [*asked, *item.image_ids, *texts])


def verdict_of(queue: ReviewQueue, choices: Sequence[str]) -> str:
    """The stored verdict for chosen ones. Raises BadInput for one that the queue does not have, and for several."""
    allowed = [choice.verdict for choice in queue.choices]
    if odd := [each for each in choices if each not in allowed]:
        raise BadInput(f"unknown verdict {known_values(one_line(odd[0], 40), [*allowed, *([NONE] * queue.many)])}")
    if len(choices) != 1 and not queue.many:
        raise BadInput(f"this queue takes one verdict: {', '.join(allowed)}")
    return " ".join(each for each in allowed if each in choices) or NONE


def review_of(queue: ReviewQueue, item: Waiting, verdict: str, reviewer: str, now: datetime) -> Review:
    """The row of `reviews` for a verdict on an item."""
    return Review(
        conversation_id=item.conversation_id, content_id=item.content_id, reasons=list(item.reasons), verdict=verdict,
        queue=queue.name, item_id=item.item_id, reviewer=reviewer, reviewed_at=now,
    )  # fmt: skip


def yes_or_no(cells: Mapping[str, str], name: str) -> bool:
    """The cell of a sheet that says yes or no. Raises BadInput for other words."""
    said = cells[name].lower()
    if said not in _YES:
        raise BadInput(f"{name} {one_line(cells[name], 40)!r}; give yes or no")
    return _YES[said]
