"""Prints what people said: of `curate review results`."""

from collections.abc import Collection
from pathlib import Path

from flows.commands.tables import note, print_rows
from schemas.items.review import DetectorPrecision, ReviewerAgreement
from tasks.export.destination import write_option_file
from tasks.review.alarms import alarm_labels
from tasks.review.session import Figures
from tasks.storage.tables import Store


def print_figures(figures: Figures, queues: Collection[str], as_json: bool) -> None:
    """Precision of detectors and agreement of reviewers, of some queues or, without any, of all."""
    precisions = [row for row in figures.precisions if not queues or row.detector in queues]
    agreements = [row for row in figures.agreements if not queues or row.queue.partition(":")[0] in queues]
    if as_json:
        print_rows("figures", [*precisions, *agreements], as_json)
        return
    if not precisions and not agreements:
        print("no finding of a detector was reviewed, and no item by two reviewers; see `curate review serve`")
    if precisions:
        print_rows("precision", [_with_interval(row, "precision", "") for row in precisions], titled=True)
    if agreements:
        print_rows("agreement", [_with_interval(row, "kappa", "kappa_") for row in agreements], titled=True)


def _with_interval(row: DetectorPrecision | ReviewerAgreement, figure: str, prefix: str) -> dict[str, object]:
    """The columns of a row, with a figure and its interval in one."""
    values = row.model_dump(mode="json")
    ends = (values[figure], *(values.pop(f"{prefix}ci95_{end}") for end in ("low", "high")))
    return values | {figure: None if None in ends else "{:.3f} ({:.3f} to {:.3f})".format(*ends)}


def write_labels(store: Store, file: Path) -> None:
    """Verdicts on stretches that were found, as labels without texts."""
    labels = alarm_labels(store)
    write_option_file("--out", file, labels.write_csv())
    print(file)
    note(f"{labels.height:,} stretches, {(labels['personal'] == 'no').sum():,} false alarms")
