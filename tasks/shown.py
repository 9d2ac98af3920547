"""A store or a release as pages show it: the listing, one item, one image, boards. Both offer a `Source`."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import polars as pl

from schemas.items.review import Stretch
from schemas.publication import ReleaseDiff, RowChange
from tasks.release.registered import ShownBoard

if TYPE_CHECKING:  # slow to load, and few who need this module serve pages
    import pyarrow as pa
    from fastapi import FastAPI, Response

CONVERSATION, BATTLE, PROMPT, FAILURE = "conversation", "battle", "prompt", "failed prompt"
SIDE = "side of a battle"
"""Kind of a conversation that a battle shows too; it is listed only when it is asked for."""


def item_key(kind: str, item_id: str) -> str:
    """16 hex digits that name an item in links and file names; ids of logs may hold anything."""
    kind = CONVERSATION if kind == SIDE else kind
    return hashlib.blake2b(f"{kind} {item_id}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class ShownMessage(NamedTuple):
    """One message of a side."""

    role: str
    parts: list[Stretch]
    """The text; of what is masked `text` is empty, unless the item was opened."""


class Text(NamedTuple):
    """A text of a section, such as a caption or an answer."""

    label: str
    note: str
    """The author, or the state of the text."""
    parts: list[Stretch]


@dataclass(frozen=True)
class Section:
    """A benchmark's part of the page of an item."""

    title: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    """(name, value) pairs."""
    texts: list[Text] = field(default_factory=list)
    beside: bool = False
    """Whether the texts stand side by side."""


class Box(NamedTuple):
    """A rectangle on an image, in its pixels."""

    x: int
    y: int
    width: int
    height: int
    label: str


class ItemImage(NamedTuple):
    """An image of an item."""

    image_id: str
    hidden: str
    """The reason for which it is blurred; empty when it is not."""
    width: int = 0
    height: int = 0
    boxes: tuple[Box, ...] = ()


@dataclass(frozen=True)
class ShownSide:
    """One conversation with one model; a benchmark prompt has no model."""

    model: str
    messages: list[ShownMessage]
    outcome: str = ""
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Item:
    """All of one conversation, battle or benchmark prompt."""

    key: str
    kind: str
    item_id: str
    sides: list[ShownSide]
    images: list[ItemImage]
    vote: str = ""
    vote_reason: list[Stretch] = field(default_factory=list)
    """The voter's own words about the vote."""
    facts: list[tuple[str, str]] = field(default_factory=list)
    """(name, value) pairs, such as the day."""
    evidence: list[str] = field(default_factory=list)
    """Reasons for which it was kept or dropped, in sentences."""
    twins: list[tuple[str, str]] = field(default_factory=list)
    """(key, how it is alike) of items that it repeats."""
    battle: str = ""
    """Key of the battle that shows it, too; empty for other items."""
    twin_images: list[ItemImage] = field(default_factory=list)
    """Images of the conversation that it repeats."""
    sections: list[Section] = field(default_factory=list)
    """Sections of benchmarks."""
    has_hidden: bool = False
    """Whether something is masked or blurred until somebody asks for it."""


def blinded(item: Item, swapped: bool) -> Item:
    """The item without anything that tells its models, the vote or why it was kept; `swapped`: the right side first."""
    sides = item.sides[::-1] if swapped else item.sides
    names = ("Left", "Right") if len(sides) > 1 else ("",)
    return Item(
        key=item.key,
        kind=item.kind,
        item_id="",
        sides=[ShownSide(name, side.messages) for name, side in zip(names, sides, strict=True)],
        images=item.images,
        has_hidden=item.has_hidden,
    )


class Round(NamedTuple):
    """A question of a user to both sides of a battle, and what each side has of it."""

    asked: list[ShownMessage]
    """The user's messages, if both sides have the same; else empty."""
    of_sides: list[list[ShownMessage]]
    """For each side its answers, with the user's messages before them where sides differ in these."""


def rounds(sides: Sequence[ShownSide]) -> list[Round]:
    """The rounds of a battle, in order: what was asked of both sides stands once, and their answers beside each other.

    A round begins with the first message of a user behind an answer. A side that ended earlier has empty rounds.
    """
    rounds_by_side = [_rounds_of(side.messages) for side in sides]
    count = max(map(len, rounds_by_side), default=0)
    # A row is a round: for each side its questions and its answers.
    rows = [[rounds_of[n] if n < len(rounds_of) else ([], []) for rounds_of in rounds_by_side] for n in range(count)]
    made = []
    for row in rows:
        questions = row[0][0]
        is_same = all(other == questions or not other for other, _ in row)
        answers = [given if is_same else [*asked_of_side, *given] for asked_of_side, given in row]
        made.append(Round(questions if is_same else [], answers))
    return made


def _rounds_of(messages: Sequence[ShownMessage]) -> list[tuple[list[ShownMessage], list[ShownMessage]]]:
    """Questions and answers of each round of one side."""
    pairs: list[tuple[list[ShownMessage], list[ShownMessage]]] = []
    for message in messages:
        is_answer = message.role == "assistant"
        if not pairs or (not is_answer and pairs[-1][1]):
            pairs.append(([], []))
        pairs[-1][is_answer].append(message)
    return pairs


class Reason(NamedTuple):
    """A reason for which lines of the logs are not released."""

    reason: str
    outcome: str
    """dropped or rejected."""
    lines: int
    """Lines of the logs, by the first reason that fired."""
    meaning: str
    evidence: tuple[str, ...] = ()
    """Details of rejected lines, in a few fixed words, most frequent first."""


def item_facts(listed: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> list[tuple[str, str]]:
    """(name, value) of what is known about a row of the listing, and of what a source knows `more`."""
    facts = {
        "Day": listed["day"],
        "Language": listed["language"],
        "Topic": listed["topic"],
        "Tags": ", ".join(listed["tags"]),
        "Image from": listed["preset"],
        "Benchmark": listed["bench"],
        "User messages": str(listed["turns"] or ""),
        **(more or {}),
    }
    return [(name, value) for name, value in facts.items() if value]


class Gone(Exception):
    """Nothing may be shown (any more): the release was withdrawn, or a takedown is under way."""


class Source(Protocol):
    """A store or a release that is open."""

    private: bool
    """Whether only the reader with the link may see it: a store."""
    title: str
    """Version of a release, or `store`; never a path."""

    def refresh(self) -> None:
        """Take in what changed since the last request. Raises Gone."""

    @property
    def listing(self) -> pl.DataFrame:
        """The listing."""

    @property
    def searchable(self) -> pl.DataFrame:
        """The listing with `searched`, which it may lack."""

    @property
    def problems(self) -> list[str]:
        """One line for each table or shard that cannot be read."""

    def item(self, key: str, opened: bool) -> Item | None:
        """An item; `opened`: with what is masked and blurred."""

    def image(self, image_id: str) -> bytes | None:
        """An encoded image that an item of the listing shows; None for any other id."""

    def hidden_image(self, image_id: str) -> str:
        """The reason for which an image is blurred; empty when it is not."""

    def note_opened(self, by: str) -> None:
        """Note in the audit log that somebody is about to see what is masked: a reviewer, or "" for who serves.

        Raises StoreUnwell when it cannot be noted.
        """

    def boards(self) -> pl.DataFrame:
        """Rows of `schemas.rating.Rating`."""

    def of_votes(self, table: str) -> pl.DataFrame:
        """The table `fragility` or `vote_checks`; empty without one."""

    def judged(self) -> tuple[pl.DataFrame, dict[str, Any]]:
        """Rows of `JudgeRating`, and what they rest on (`JudgeAgreement`); both may be empty."""

    def item_boards(self) -> list[ShownBoard]:
        """Boards of written benchmarks and of those made on demand."""

    def reasons(self) -> list[Reason]:
        """Reasons for which lines were dropped or rejected, most frequent first; empty for a release."""

    def evidence(self, ids: list[tuple[str, str]]) -> dict[tuple[str, str], list[str]]:
        """(kind, id) -> why it was dropped, in sentences; empty for a release."""

    def closeness(self, item_id: str) -> pl.Series | None:
        """Float32 (rows of the listing,): cosine of each to an item, null for itself; None where there is no vector."""

    @property
    def has_vectors(self) -> bool:
        """Whether items have vectors by which others are close."""

    @property
    def asked(self) -> "AskedTables":
        """The tables, to be asked in SQL, with the masks of these pages."""

    def note_ids_given(self, count: int) -> None:
        """Note in the audit log that so many ids leave as a file. Raises StoreUnwell when it cannot be noted."""


@dataclass(frozen=True)
class Comparison:
    """The difference that `curate diff` found between an earlier release and the one that is shown."""

    against: str
    """Version of the earlier release."""
    diff: ReleaseDiff
    changes: Sequence[RowChange]
    """The first rows that differ."""
    ratings: pl.DataFrame
    """Rows of the earlier release's boards; empty where it has none."""


class ComparedTopics(NamedTuple):
    """Topics of two releases side by side."""

    rows: list[dict[str, Any]]
    rule: str
    """Rule by which they are matched, in words."""
    page: Callable[[], str]
    """One file that shows them with pictures; both releases must still be open."""


class ViewColumn(NamedTuple):
    """One column of what a question in SQL may name."""

    name: str
    type: str
    about: str
    shown: str
    """The treatments of its texts; empty where there is none."""


class AskedTables(Protocol):
    """Tables of a store or a release that are asked in SQL."""

    def views(self) -> Mapping[str, str]:
        """Name of each table and view -> what one of its rows is."""

    def columns(self, view: str) -> "Sequence[ViewColumn]":
        """The columns of a table or view. Raises BadInput for an unknown one."""

    def answer(self, question: str) -> "Iterator[pa.RecordBatch]":
        """The rows of a question, in at least one batch. Raises BadInput for one that cannot be asked."""


class PagesOfSource(Protocol):
    """Pages with tabs."""

    more_tabs: list[tuple[str, str]]
    """(name, address) of pages that others add."""

    def more(self, template: str, tab: str, **values: Any) -> str:
        """A page that others add."""


class ServedPages(Protocol):
    """Pages that are served, and what this session has opened, for those who add pages."""

    source: Source
    opened: set[str]
    """Keys of items whose masked content is shown."""

    @property
    def pages(self) -> PagesOfSource:
        """The pages."""

    def answer(self, made: Callable[[], str | None]) -> "Response":
        """The page, or one sentence when there is none or nothing may be shown."""

    def open(self, key: str, by: str = "") -> "Response | None":
        """Show the masked content of an item from now on; returns a page instead when that cannot be noted."""

    def open_images(self, key: str, image_ids: Sequence[str], by: str = "") -> "Response | None":
        """The same for something that is no item of its own."""


MorePages = Callable[["FastAPI", ServedPages], str]
"""Adds routes to served pages, and returns the path of their first page."""
