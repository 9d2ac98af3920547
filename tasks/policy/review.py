"""Lists held conversations; takes reviewers' verdicts. A verdict holds for that content and those reasons only."""

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from schemas.decision import ItemKind, Review, Verdict
from schemas.errors import BadInput, why_unreadable
from schemas.policy import Action
from tasks.storage.content_id import combined_id
from tasks.storage.tables import Store, frame_of

COLUMNS = ("conversation_id", "content_id", "reasons", "verdict")


def content_of(conversation: Mapping[str, Any]) -> str:
    """Content id of all messages and images of a row of `conversations`; a new turn changes it."""
    texts = [turn["text_id"] for turn in conversation["turns"]]
    return combined_id("reviewed", [*texts, *conversation["image_ids"]])


def held(store: Store) -> list[dict[str, str]]:
    """One row with `COLUMNS` and an empty verdict for every conversation that waits for review."""
    decisions = store.read("decisions").filter("held", item_kind=ItemKind.CONVERSATION.value)
    waiting = decisions.select("reasons", conversation_id="item_id")
    rows = store.read("conversations").join(waiting, on="conversation_id").sort("conversation_id")
    return [
        dict(zip(COLUMNS, (row["conversation_id"], content_of(row), " ".join(row["reasons"]), ""), strict=True))
        for row in rows.iter_rows(named=True)
    ]


def held_csv(store: Store) -> str:
    """The rows of `held` as CSV, for a reviewer to fill in."""
    sink = io.StringIO()
    writer = csv.DictWriter(sink, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(held(store))
    return sink.getvalue()


def take_verdicts(store: Store, file: Path) -> dict[str, int]:
    """Add the verdicts of a filled-in file to `reviews`; lines without one are skipped. Returns counts by verdict.

    A later verdict on the same content and reasons replaces the earlier one. Raises BadInput, without
    adding anything, if a line cannot be used.
    """
    given = list(_verdicts(file))
    key = ["conversation_id", "content_id", "reasons"]
    added = frame_of(Review, given).unique(key, keep="last")
    store.replace("reviews", pl.concat([store.read("reviews").join(added, on=key, how="anti"), added]))
    return {verdict.value: sum(review.verdict is verdict for review in given) for verdict in Verdict}


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
            reasons = sorted(row["reasons"].split())
            yield Review(
                conversation_id=row["conversation_id"],
                content_id=row["content_id"],
                reasons=reasons,
                verdict=Verdict(verdict),
            )


def reviewed(hits: pl.DataFrame, conversations: pl.DataFrame, reviews: pl.DataFrame) -> pl.DataFrame:
    """Apply verdicts to fired rules: a released hold becomes a tag, a dropped hold becomes a drop."""
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
