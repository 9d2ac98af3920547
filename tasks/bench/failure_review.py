"""Prints failures as CSV for a reviewer, and takes the types that the reviewer gives them."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from schemas.bench import FailureReview, FailureType
from schemas.errors import BadInput, known_values, why_unreadable
from tasks.storage.tables import Store, frame_of

COLUMNS = ("document_id", "conversation_id", "judges", "both_bad", "failure_type", "reviewed", "verdict")


def failures_csv(store: Store) -> str:
    """One line for each failure with an empty verdict, for a reviewer to fill in."""
    sink = io.StringIO()
    writer = csv.DictWriter(sink, COLUMNS, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(row | {"verdict": ""} for row in store.read("failures").iter_rows(named=True))
    return sink.getvalue()


def take_types(store: Store, file: Path) -> int:
    """Add the verdicts of a filled-in file to `failure_reviews`; lines without one are skipped. Returns their number.

    A later verdict replaces an earlier one. Raises BadInput, without adding anything, if a line cannot be used.
    """
    given = list(_verdicts(file, set(store.read("failures", ["document_id"])["document_id"])))
    added = frame_of(FailureReview, given).unique("document_id", keep="last")
    earlier = store.read("failure_reviews").join(added, on="document_id", how="anti")
    store.replace("failure_reviews", pl.concat([earlier, added]))
    return added.height


def _verdicts(file: Path, known: set[str]) -> Iterator[FailureReview]:
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
            yield FailureReview(document_id=row["document_id"], failure_type=FailureType(verdict))
