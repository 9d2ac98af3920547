"""Where each description of a benchmark stands: what is stored about it, and what comes next."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

import polars as pl

from schemas.benches.generated import (
    Alignment,
    Capability,
    DrawingState,
    GeneratedAspect,
    GeneratedBench,
    GeneratedDescription,
    GeneratedImage,
    GeneratedItem,
    GeneratedOutcome,
    GeneratedQuestion,
    Outcome,
)
from schemas.errors import BadInput
from schemas.policy import GeneratedRule
from schemas.row import Row
from schemas.tables import TABLES
from tasks.storage.tables import Store

AnyRow = TypeVar("AnyRow", bound=Row)
_OF_DESCRIPTION = {"description_id", "bench"}


class NextStep(StrEnum):
    """The next piece of work on a description."""

    DRAW = "draw"
    CHECK = "check"
    ASK = "ask"
    DROP = "drop"
    DONE = "done"


@dataclass(frozen=True)
class ItemProgress:
    """All rows stored for one description."""

    description: GeneratedDescription
    images: list[GeneratedImage]
    """By attempt."""
    alignments: Mapping[int, Alignment]
    """Attempt -> alignment."""
    questions: list[GeneratedQuestion]
    """By attempt."""
    outcome: GeneratedOutcome | None

    @property
    def last(self) -> Alignment | None:
        """The alignment of the last image."""
        return self.alignments.get(self.images[-1].attempt) if self.images else None

    @property
    def next_attempt(self) -> int:
        """Number of the image that would be ordered next; an earlier one may have been taken down."""
        return self.images[-1].attempt + 1 if self.images else 0

    @property
    def accepted(self) -> bool:
        """Whether it ended as an item, and its image and question are still there: a takedown removes them."""
        ended = self.outcome is not None and self.outcome.outcome is Outcome.ITEM
        return ended and bool(self.images and self.questions)

    def next_step(self, rule: GeneratedRule) -> tuple[NextStep, str]:
        """(what it needs, why it is dropped)."""
        if self.outcome is not None:
            return NextStep.DONE, ""
        if not self.images:
            return NextStep.DRAW, ""
        image = self.images[-1]
        if image.state is DrawingState.REFUSED:
            return NextStep.DROP, "refused"
        if image.state is DrawingState.DRAWN and self.last is None:
            return NextStep.CHECK, ""
        if self.last is not None and self.last.score >= rule.alignment_min:
            return NextStep.ASK, ""
        if self.next_attempt <= rule.redraws_max:
            return NextStep.DRAW, ""
        return NextStep.DROP, "unusable" if self.last is None else "alignment"

    def ended(self, outcome: Outcome, reason: str = "") -> GeneratedOutcome:
        """The end of it."""
        score, ids = self.last.score if self.last else None, self.description.model_dump(include=_OF_DESCRIPTION)
        return GeneratedOutcome(**ids, outcome=outcome, reason=reason, images=len(self.images), score=score)


@dataclass(frozen=True)
class BenchState:
    """All rows stored for one benchmark."""

    bench: GeneratedBench
    aspects: dict[int, GeneratedAspect] = field(default_factory=dict)
    progress: list[ItemProgress] = field(default_factory=list)
    outcomes: dict[str, GeneratedOutcome] = field(default_factory=dict)
    """Description id -> its end, also of descriptions that could not be written."""
    items: list[GeneratedItem] = field(default_factory=list)

    @property
    def capability(self) -> Capability:
        """The capability it tests."""
        return Capability.model_validate_json(self.bench.capability)

    @property
    def embedded(self) -> list[str]:
        """Makers of the benchmark that were embedded stand-ins."""
        return [provider.partition("=")[0] for provider in self.bench.providers if provider.endswith("=embedded")]

    @property
    def wanted(self) -> int:
        """Descriptions that it is to have."""
        return self.bench.general * self.bench.fine * self.bench.per_aspect * len(self.bench.levels)


def read_bench(store: Store, name: str) -> BenchState:
    """All rows stored for a benchmark. Raises BadInput when there is none of this name."""
    benches = _rows(store, "generated_benches", GeneratedBench, pl.col("bench") == name)
    if not benches:
        names = sorted(store.read("generated_benches", ["bench"])["bench"])
        raise BadInput(
            f"--bench {name!r}: store {store.root!r} has no benchmark of this name; "
            + (f"it has {', '.join(names)}" if names else "make one with `curate bench generate`")
        )
    of_bench = pl.col("bench") == name
    descriptions = _rows(store, "generated_descriptions", GeneratedDescription, of_bench)
    ids = pl.col("description_id").is_in([row.description_id for row in descriptions])
    images = _by_description(_rows(store, "generated_images", GeneratedImage, ids))
    alignments = _by_description(_rows(store, "alignments", Alignment, ids))
    questions = _by_description(_rows(store, "generated_questions", GeneratedQuestion, ids))
    outcomes = {end.description_id: end for end in _rows(store, "generated_outcomes", GeneratedOutcome, of_bench)}
    aspects = _rows(store, "generated_aspects", GeneratedAspect, of_bench)

    def progress(description: GeneratedDescription) -> ItemProgress:
        key = description.description_id
        measured = {alignment.attempt: alignment for alignment in alignments.get(key, ())}
        return ItemProgress(description, images.get(key, []), measured, questions.get(key, []), outcomes.get(key))

    return BenchState(
        benches[0],
        {aspect.aspect: aspect for aspect in aspects},
        [progress(row) for row in descriptions],
        outcomes,
        _rows(store, "generated_items", GeneratedItem, of_bench),
    )


Owned = TypeVar("Owned", GeneratedImage, Alignment, GeneratedQuestion)


def _by_description(rows: Iterable[Owned]) -> dict[str, list[Owned]]:
    by_description: dict[str, list[Owned]] = {}
    for row in rows:
        by_description.setdefault(row.description_id, []).append(row)
    return by_description


def _rows(store: Store, table: str, row: type[AnyRow], condition: pl.Expr) -> list[AnyRow]:
    """The rows of a table, each once by its sort columns, in their order."""
    keys = list(TABLES[table].sort)
    rows = store.read(table).filter(condition).unique(keys, keep="first", maintain_order=True).sort(keys)
    return [row.model_validate(stored_row) for stored_row in rows.to_dicts()]
