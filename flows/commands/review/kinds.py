"""Kinds of questions to people: the queues of each kind, with what is drawn for them."""

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from flows.commands.options import existing
from flows.products import PRODUCTS
from schemas.errors import BadInput, known_values
from schemas.items.review import Draws
from tasks.product import ResultsAsked, ReviewKind
from tasks.runtime.untrusted import csv_delimiter, one_line

if TYPE_CHECKING:
    from tasks.review.session import Figures
    from tasks.review_queue import ReviewQueue
    from tasks.storage.tables import Store


def _drawn(kind: str, draws: Draws) -> "list[ReviewQueue]":
    """Queues that need no more than what is said of the draw."""
    from tasks.review.alarms import FacesQueue, ImageTextsQueue, PersonalDataQueue
    from tasks.review.failures import FailureAnswersQueue, FailuresQueue
    from tasks.review.held import HeldQueue
    from tasks.review.tags import TagsQueue

    drawn = draws.sample, draws.seed
    queues: dict[str, list[ReviewQueue]] = {
        "held": [HeldQueue()],
        "tags": [TagsQueue(*drawn)],
        "alarms": [FacesQueue(*drawn), PersonalDataQueue(*drawn), ImageTextsQueue(*drawn)],
        "failures": [FailuresQueue(), FailureAnswersQueue()],
    }
    return queues[kind]


def _alarms(request: ResultsAsked) -> None:
    """Precisions, or with a file what was found as labels."""
    from flows.commands.review.results import print_figures, write_labels

    store = existing(request.draws.store)
    if request.out is None:
        print_figures(figures_of(store), REVIEW_KINDS["alarms"].queues, request.as_json)
    else:
        write_labels(store, request.out)


_OF_CORE = {
    "held": ReviewKind(
        ("held",), partial(_drawn, "held"), "`curate decide` or `curate run` applies them", True, left_by_runs=True
    ),
    "tags": ReviewKind(
        ("tags",),
        partial(_drawn, "tags"),
        "`curate tags evaluate TAGGER reviews` holds a tagger against them",
        True,
    ),
    "alarms": ReviewKind(
        ("faces", "text_pii", "image_text_pii"),
        partial(_drawn, "alarms"),
        "`curate review results alarms` gives precisions",
        True,
        results=_alarms,
        results_in_file=True,
    ),
    "failures": ReviewKind(
        ("failures", "failure_answers"),
        partial(_drawn, "failures"),
        "`curate sample` or `curate run` applies types, `curate bench failures` shows the marks of answers",
        True,
        left_by_runs=True,
    ),
}
# A product names the module that has its kinds by name; one without kinds names none.
_OF_PRODUCTS = {
    name: kind for product in PRODUCTS if product.kinds for name, kind in import_module(product.kinds).KINDS.items()
}
REVIEW_KINDS: dict[str, ReviewKind] = dict(
    sorted({**_OF_CORE, **_OF_PRODUCTS}.items(), key=lambda named: not named[1].of_every_store)
)
"""Kinds by the name that users type; those that are served when none is named come first."""
OF_EVERY_STORE = tuple(name for name, kind in REVIEW_KINDS.items() if kind.of_every_store)
"""Kinds that are served when none is named."""


def queues_of(kinds: Sequence[str], draws: Draws) -> "list[ReviewQueue]":
    """The queues of some kinds. Raises BadInput for an unknown kind."""
    for kind in kinds:
        if kind not in REVIEW_KINDS:
            raise BadInput(f"kind {known_values(kind, REVIEW_KINDS)}")
    return [queue for kind in dict.fromkeys(kinds) for queue in REVIEW_KINDS[kind].make_queues(draws)]


def only_among(queues: "Sequence[ReviewQueue]", file: Path | None) -> None:
    """Ask about the conversations and battles of a CSV file alone, such as the explorer's selection.csv.

    Raises BadInput for a file that cannot be read or has no column `id`, and where none of its ids is of an item.
    """
    if file is None:
        return
    try:
        rows = pl.read_csv(file, infer_schema=False, separator=csv_delimiter(file))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise BadInput(
            f"--among {str(file)!r} cannot be read as CSV ({type(error).__name__}); give a file with a column `id`, "
            "such as the selection.csv of `curate view`"
        ) from None
    if "id" not in rows.columns:
        columns = ", ".join(one_line(name, 40) for name in rows.columns[:10])
        raise BadInput(f"--among {str(file)!r} lacks a column `id`; its columns are {columns}")
    ids = frozenset(rows["id"].drop_nulls().str.strip_prefix("'"))
    for queue in queues:
        queue.among = ids


def figures_of(store: "Store") -> "Figures":
    """Agreement of reviewers and precision of detectors."""
    from tasks.review.session import Figures
    from tasks.storage.reviews import detector_precisions, reviews_of

    reviews = reviews_of(store)
    agreements = [row for product in PRODUCTS for row in product.reviewer_agreements(reviews)]
    return Figures(agreements, detector_precisions(store))
