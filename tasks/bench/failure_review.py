"""Failures for reviewers, as CSV and for the review pages."""

import csv
import io
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from schemas.bench import FailureType
from schemas.errors import BadInput, known_values, why_unreadable
from schemas.review import Choice, QueueName, Review, Waiting
from tasks.storage.reviews import add_reviews
from tasks.storage.tables import Store

COLUMNS = ("document_id", "conversation_id", "judges", "both_bad", "failure_type", "reviewed", "verdict")


def _words(kind: str) -> str:
    return kind.replace("_", " ").capitalize()


def failures_csv(store: Store) -> str:
    """One line for each failure with an empty verdict, for a reviewer to fill in."""
    sink = io.StringIO()
    writer = csv.DictWriter(sink, COLUMNS, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(row | {"verdict": ""} for row in store.read("failures").iter_rows(named=True))
    return sink.getvalue()


class FailuresQueue:
    """Prompts that several people voted both bad, for the review pages."""

    name, title, many = QueueName.FAILURES.value, "Failures", False
    about = "Why do models fail the prompt? The next run, or `curate sample`, takes the type that a person gave last."
    choices = tuple(Choice(str(n), kind.value, _words(kind)) for n, kind in enumerate(FailureType, 1))
    tables = ("failures", "battles", "conversations")

    def waiting(self, store: Store) -> list[Waiting]:
        """Every failure with both answers of its earliest vote; those without a person's type first."""
        failures = store.read("failures").sort("reviewed", "document_id")
        sides = store.read("battles", ["conversation_a", "battle_id"])
        battle_of = dict(sides.unique("conversation_a", keep="first", maintain_order=True).iter_rows())
        return [
            Waiting(
                item_id=row["document_id"],
                content_id=row["document_id"],
                conversation_id=row["conversation_id"],
                question=f"Why do models fail it? Now: {_words(row['failure_type'] or 'undecided').lower()}",
                battle_id=battle_of.get(row["conversation_id"], ""),
            )
            for row in failures.iter_rows(named=True)
        ]


def take_types(store: Store, file: Path, reviewer: str, now: datetime) -> int:
    """Add the verdicts of a filled-in file to `reviews`; lines without one are skipped. Returns their number.

    A later verdict replaces an earlier one. Raises BadInput, without adding anything, if a line cannot be used.
    """
    known = dict(store.read("failures", ["document_id", "conversation_id"]).iter_rows())
    given = dict(_verdicts(file, set(known)))
    add_reviews(store, [_review(document, known[document], kind, reviewer, now) for document, kind in given.items()])
    return len(given)


def _review(document_id: str, conversation_id: str, kind: FailureType, reviewer: str, now: datetime) -> Review:
    return Review(
        conversation_id=conversation_id,
        content_id=document_id,
        reasons=[],
        verdict=kind.value,
        queue=QueueName.FAILURES.value,
        item_id=document_id,
        reviewer=reviewer,
        reviewed_at=now,
    )


def _verdicts(file: Path, known: set[str]) -> Iterator[tuple[str, FailureType]]:
    try:
        reader = csv.DictReader(io.StringIO(file.read_text(encoding="utf-8-sig")))
        rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"review {str(file)!r} cannot be read ({why_unreadable(error)})") from None
    if not {"document_id", "verdict"} <= {*(reader.fieldnames or ())}:
        needs = "needs the columns document_id and verdict, as `curate bench failures --csv` prints them"
        raise BadInput(f"review {str(file)!r}, line 1: {needs}")
    for number, row in enumerate(rows, 2):
        where, verdict = f"review {str(file)!r}, line {number}", (row["verdict"] or "").strip().lower()
        if verdict and verdict not in list(FailureType):
            raise BadInput(f"{where}: verdict {known_values(verdict, list(FailureType))}")
        if verdict and row["document_id"] not in known:
            problem = f"{row['document_id']!r} is no failure of this store"
            raise BadInput(f"{where}: {problem}; `curate bench failures --csv` lists them")
        if verdict:
            yield row["document_id"], FailureType(verdict)
