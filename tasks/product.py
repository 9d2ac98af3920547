"""The form of a product: what it gives the core. `flows/products.py` lists the products and asks each of them.

In: a store, a release or settings. Out: ids, texts, findings, boards, sections and stages, for the core to use. A
further thing that products give is a field here, nothing by default, and a function in `flows/products.py`.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

if TYPE_CHECKING:  # slow to load, and a plain run loads every product's module
    from fastapi import FastAPI

    from schemas.benches.generated import GeneratedItem
    from schemas.benches.generated_results import AccuracyRow
    from schemas.items.review import Draws, ReviewerAgreement
    from schemas.run import StageReport
    from schemas.settings import Settings
    from tasks.providers.capabilities import StreamingModel
    from tasks.release.registered import BoardOf, OpenRelease, ReleasePart, ShownBoard, ShownSection
    from tasks.report.page import Part
    from tasks.review_queue import ReviewQueue
    from tasks.shown import AskedTables, ComparedTopics, Comparison, MorePages, Source
    from tasks.storage.queries.signals import Versions
    from tasks.storage.tables import Store

ITEM_TEXT_SCHEMA = dict.fromkeys(("item_id", "text"), pl.String)
"""Columns of texts that belong to items."""
JUDGE_TEXT_SCHEMA = dict.fromkeys(("item_id", "question_id", "model", "text"), pl.String)
"""Columns of texts of answers and verdicts."""


class ResultsAsked(NamedTuple):
    """Request for what people said."""

    draws: "Draws"
    """The store, and where results are those of one benchmark its name."""
    out: "Path | None"
    """File to write, where one is named."""
    as_json: bool
    """Whether to print one JSON object a line."""
    bootstraps: int
    """Resamples for intervals."""


class ReviewKind(NamedTuple):
    """One kind of question to people."""

    queues: tuple[str, ...]
    """Names of its queues in the table `reviews`."""
    make_queues: "Callable[[Draws], list[ReviewQueue]]"
    """Makes the queues of the kind. Raises BadInput where the store has nothing to draw from."""
    next: str
    """Use of its verdicts, as the command prints it."""
    of_every_store: bool = False
    """Whether it is served when no kind is named."""
    left_by_runs: bool = False
    """Whether a run leaves questions of it to people; the others are samples, of which there are always some."""
    results: "Callable[[ResultsAsked], None] | None" = None
    """Prints what people said, for `curate review results`; None: agreement of reviewers and precision of detectors."""
    results_of_bench: bool = False
    """Whether these results are those of one benchmark, which --bench names."""
    results_in_file: bool = False
    """Whether these results can be written to the file that --out names."""
    finds_correct: "Callable[[str], bool] | None" = None
    """Whether a verdict calls its item correct: raters are held against items with known answers (--qualification)."""


class KeyedItems(NamedTuple):
    """The kept items of a benchmark whose answers are marked by keys."""

    items: "Sequence[GeneratedItem]"
    conversations: pl.DataFrame
    """The same items as conversations."""
    accuracy: "Callable[[pl.DataFrame], list[AccuracyRow]]"
    """Rows of `answers` -> accuracy of their models, overall and by level."""


class Explorer(NamedTuple):
    """Pages of stores and releases."""

    of_store: "Callable[[Store, Sequence[Product], Callable[[], Versions]], Source]"
    """A store with the sections and boards that products add, and the versions of all signals, when they are needed."""
    of_release: "Callable[[Path, str, Callable[[], str], Sequence[ReleasePart]], Source]"
    """A release in a folder, its title, who withdrew it meanwhile if anybody did, and the parts that products add."""
    app: "Callable[[Source, Callable[[], int], Comparison | None, Sequence[MorePages]], tuple[FastAPI, str]]"
    """The application, and the path to open first; the port is known once it listens."""
    export: "Callable[[Source, Path, int, Comparison | None], int]"
    """Write the pages of a release to a new folder, of at most so many items; the number of items."""
    compared_topics: "Callable[[Source, Source], ComparedTopics]"


def _nothing(*_: object) -> Iterable[Any]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Product:
    """Everything that a product gives the core; by default nothing.

    Each function first looks whether the store (or the release) has the product's tables, and imports no other module
    of the product where it has none.
    """

    commands: str = ""
    """Name of the module whose `COMMANDS` it adds to `curate`."""
    estimates: str = ""
    """Name of the module whose `ESTIMATES` says what its calls would cost, for `curate estimate`: settings and the
    models file of a writer -> rows, or None where they ask for the cost of something else."""
    item_ids: "Callable[[Store], Iterable[str]]" = _nothing
    """Conversations that are items of its benchmarks: their prompts are public like drawn ones."""
    left_out_items: "Callable[[Store], Iterable[str]]" = _nothing
    """Items that no release holds, because audits or people found them wanting."""
    item_findings: "Callable[[Store, pl.Series], pl.DataFrame]" = lambda *_: pl.DataFrame()
    """Findings on conversations as items, in the order of the ids; no columns when the store has no such items."""
    item_images: "Callable[[Store, str | None], dict[str, tuple[str, str, int]]]" = lambda *_: {}
    """Image id -> (table, part, row group) of images that kept items show: of one benchmark, or of all."""
    keyed_items: "Callable[[Store, str], KeyedItems | None]" = lambda *_: None
    """The benchmark of this name, if its items have keys (right answers). Raises BadInput when none is kept."""
    hidden_texts: "Callable[[Store], pl.DataFrame]" = lambda _: pl.DataFrame(schema=ITEM_TEXT_SCHEMA)
    """Texts that no release may hold, as `ITEM_TEXT_SCHEMA`."""
    validation_texts: "Callable[[Store], Iterable[str]]" = _nothing
    """Texts about items that a release may hold once they are screened: those of the validation split."""
    judge_texts: "Callable[[Store], pl.DataFrame]" = lambda _: pl.DataFrame(schema=JUDGE_TEXT_SCHEMA)
    """Answers and verdicts that a release may hold once they are screened, as `JUDGE_TEXT_SCHEMA`."""
    unscreened_judge_texts: "Callable[[Store], dict[str, str]]" = lambda _: {}
    """Text id -> text of every answer and verdict that a release may hold at most, screened or not."""
    rating_stages: "Callable[[Settings, Versions, Path], Iterable[StageReport]]" = _nothing
    """Stages that rate what a release says of its items; the path is the folder of the release that is being built."""
    stand_ins: "Callable[[Store], Iterable[str]]" = _nothing
    """Names of the embedded judges, which stand in for a model, whose boards the release has."""
    kinds: str = ""
    """Name of the module whose `KINDS` it adds: kinds of questions to people, by the name that users type."""
    reviewer_agreements: "Callable[[pl.DataFrame], Iterable[ReviewerAgreement]]" = _nothing
    """Agreement of every two reviewers, from rows of the table `reviews`."""
    item_sections: "Callable[[Store, str], Iterable[ShownSection]]" = _nothing
    """Sections about a conversation that is an item; their texts are not masked yet."""
    item_boards: "Callable[[BoardOf], Iterable[ShownBoard]]" = _nothing
    """Boards of its items, as the last release rated them."""
    report_sections: "Callable[[Store], Iterable[Part]]" = _nothing
    """Sections of the report."""
    parts_of_store: "Callable[[Store], Sequence[ReleasePart]]" = lambda _: ()
    """Parts of a release of the store."""
    drawn_models: "Callable[[Path, int], dict[str, StreamingModel]]" = lambda *_: {}
    """Models without keys for an arena, by name; the folder gets the images that they know, the number is a seed."""
    explorer: "Callable[[], Explorer | None]" = lambda: None
    """How it shows stores and releases."""
    asked_tables: "Callable[[str, bool, Callable[[], Versions]], AbstractContextManager[AskedTables]] | None" = None
    """Answers in SQL: the place of a store or a release, whether texts are given as they are, versions of signals."""
    parts_of_release: "Callable[[OpenRelease], Sequence[ReleasePart]]" = lambda _: ()
    """Parts of a release on disk, by its files, and by what its manifest and its store say."""
