"""Lists held conversations; takes reviewers' verdicts. A verdict holds for that content and those reasons only."""

import csv
import io
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from schemas.decision import ItemKind
from schemas.errors import BadInput, why_unreadable
from schemas.policy import Action
from schemas.review import Choice, QueueName, Review, Verdict, Waiting
from tasks.storage.content_id import combined_id
from tasks.storage.reviews import add_reviews, reviews_of
from tasks.storage.tables import Store

COLUMNS = ("conversation_id", "content_id", "reasons", "verdict")


def content_of(conversation: Mapping[str, Any]) -> str:
    """Content id of all messages and images of a row of `conversations`; a new turn changes it."""
    texts = [turn["text_id"] for turn in conversation["turns"]]
    return combined_id("reviewed", [*texts, *conversation["image_ids"]])


class HeldQueue:
    """Held conversations, for the review pages."""

    name, title, many = QueueName.HELD.value, "Held conversations", False
    about = (
        "A rule holds them until somebody has looked. Release overrules holds and nothing else; drop keeps the "
        "conversation out. The next run, or `curate decide`, applies it."
    )
    choices = (Choice("r", Verdict.RELEASE.value, "Release"), Choice("d", Verdict.DROP.value, "Drop"))
    tables = ("decisions", "conversations")

    def waiting(self, store: Store) -> list[Waiting]:
        """Every conversation that is held now, by id."""
        return [
            Waiting(
                item_id=row["conversation_id"],
                content_id=row["content_id"],
                conversation_id=row["conversation_id"],
                question="Release it?",
                reasons=tuple(sorted(row["reasons"].split())),
            )
            for row in held(store)
        ]


def held(store: Store) -> list[dict[str, str]]:
    """One row with `COLUMNS` and an empty verdict for every conversation that waits for review."""
    decisions = store.read("decisions", ["item_kind", "item_id", "held", "reasons"])
    waits = decisions.filter("held", item_kind=ItemKind.CONVERSATION.value)
    waiting = waits.select("reasons", conversation_id="item_id")
    columns = ["conversation_id", "turns.list.element.text_id", "image_ids"]
    found = [rows.join(waiting, on="conversation_id") for rows in store.read_slices("conversations", columns)]
    rows = sorted((row for each in found for row in each.iter_rows(named=True)), key=lambda row: row["conversation_id"])
    return [
        dict(zip(COLUMNS, (row["conversation_id"], content_of(row), " ".join(row["reasons"]), ""), strict=True))
        for row in rows
    ]


def held_csv(store: Store) -> str:
    """The rows of `held` as CSV, for a reviewer to fill in."""
    sink = io.StringIO()
    writer = csv.DictWriter(sink, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(held(store))
    return sink.getvalue()


def take_verdicts(store: Store, file: Path, reviewer: str, now: datetime) -> dict[str, int]:
    """Add the verdicts of a filled-in file to `reviews`; lines without one are skipped. Returns counts by verdict.

    A reviewer's later verdict on the same content and reasons replaces the earlier one. Raises BadInput, without
    adding anything, if a line cannot be used.
    """
    given = [each.model_copy(update={"reviewer": reviewer, "reviewed_at": now}) for each in _verdicts(file)]
    add_reviews(store, given)
    return {verdict.value: sum(review.verdict == verdict.value for review in given) for verdict in Verdict}


def _verdicts(file: Path) -> Iterator[Review]:
    try:
        reader = csv.DictReader(io.StringIO(file.read_text(encoding="utf-8-sig")))
        rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"review {str(file)!r} cannot be read ({why_unreadable(error)})") from None
    needs = f"needs the columns {', '.join(COLUMNS)}, as `curate review` prints them"
    if not {*COLUMNS} <= {*(reader.fieldnames or ())}:
        raise BadInput(f"review {str(file)!r}, line 1: {needs}")
    for number, row in enumerate(rows, 2):
        where = f"review {str(file)!r}, line {number}"
        if None in row.values():
            raise BadInput(f"{where}: {needs}")
        verdict = row["verdict"].strip().lower()
        if verdict and verdict not in list(Verdict):
            raise BadInput(f"{where}: verdict {row['verdict']!r}; give release, drop or nothing")
        if verdict:
            yield _review(row, verdict)


def _review(row: Mapping[str, str], verdict: str) -> Review:
    return Review(
        conversation_id=row["conversation_id"],
        content_id=row["content_id"],
        reasons=sorted(row["reasons"].split()),
        verdict=verdict,
        queue=QueueName.HELD.value,
        item_id=row["conversation_id"],
    )


def held_reviews(store: Store) -> pl.DataFrame:
    """The verdicts on held conversations."""
    return reviews_of(store).filter(queue=QueueName.HELD.value)


def reviewed(hits: pl.DataFrame, conversations: pl.DataFrame, reviews: pl.DataFrame) -> pl.DataFrame:
    """Apply verdicts to fired rules: a released hold becomes a tag, a dropped hold becomes a drop.

    Where reviewers disagree, it is dropped.
    """
    rows = conversations.join(reviews, on="conversation_id", how="semi").iter_rows(named=True)
    content = pl.DataFrame(
        [(row["conversation_id"], content_of(row)) for row in rows],
        schema={"conversation_id": pl.String, "content_id": pl.String},
        orient="row",
    )
    valid = reviews.join(content, on=["conversation_id", "content_id"])
    seen = valid.explode("reasons").select("verdict", item_id="conversation_id", reason="reasons")
    verdicts = seen.group_by("item_id", "reason").agg(dropped=(pl.col("verdict") == Verdict.DROP.value).any())
    is_hold = pl.col("action") == Action.HOLD.value
    verdict = pl.when("dropped").then(pl.lit(Action.DROP.value)).otherwise(pl.lit(Action.TAG.value))
    action = pl.when(is_hold & pl.col("dropped").is_not_null()).then(verdict).otherwise("action")
    return hits.join(verdicts, on=["item_id", "reason"], how="left").with_columns(action=action).select(hits.columns)
