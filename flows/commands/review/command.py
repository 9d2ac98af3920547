"""`curate review`: everything that people are asked, as sheets or in the browser, and what they said."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import AGREEMENT_BOOTSTRAPS, BootstrapsOption, JsonOption, existing, takes
from flows.commands.pages import NoBrowserOption, PortOption, serve
from flows.commands.review.kinds import OF_EVERY_STORE, REVIEW_KINDS, figures_of, only_among, queues_of
from flows.commands.tables import note
from schemas.errors import BadInput, known_values
from schemas.items.review import Draws
from tasks.product import ResultsAsked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schemas.items.review import Review
    from tasks.review.sheets import Filled
    from tasks.review_queue import ReviewQueue
    from tasks.storage.tables import Store

_KINDS = ", ".join(REVIEW_KINDS)
_DRAWN = ("store", "sample", "per_pair", "bench", "tuples", "language", "slice", "providers", "seed")
_SHARED = ("store", "providers")
"""Settings that `curate.yaml` gives."""
KindArgument = Annotated[str, typer.Argument(help=f"What is asked: {_KINDS}.")]
AmongOption = Annotated[
    Path | None,
    typer.Option(
        "--among",
        metavar="FILE",
        help="CSV with a column id, such as the explorer's selection.csv: ask only about these.",
    ),
]
ReviewerOption = Annotated[str, typer.Option("--reviewer", help="Who gave the verdicts that name nobody.")]


@takes(*_DRAWN, "hidden", row=Draws, shared=_SHARED, hidden=False)
def out(
    wanted: Draws,
    kind: KindArgument,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="New folder for sheet.csv and images/.", show_default="the sheet alone, on stdout"),
    ] = None,
    among: AmongOption = None,
    unmasked: Annotated[
        bool, typer.Option("--unmasked", help="Alarms with the personal data and the images that they are about.")
    ] = False,
) -> None:
    """Write what is asked as a sheet (CSV) in which people fill in the columns verdict and reviewer."""
    from schemas.upkeep import Audited
    from tasks.review.sheets import sheet_csv, write_sheet
    from tasks.storage.records import add_audit_entry

    opened = existing(wanted.store)
    queues = queues_of([kind], wanted)
    only_among(queues, among)
    if unmasked:
        add_audit_entry(opened, Audited.LOOKED, {"sheets": 1})
    if folder is None:
        print(sheet_csv(opened, queues, unmasked), end="")
        return
    items, images = write_sheet(opened, queues, folder, unmasked)
    print(folder / "sheet.csv")
    instruction = (
        "fill in the columns verdict and reviewer" + ", or name each copy after its reviewer" * queues[0].named_by_file
    )
    note(f"{items:,} items and {images:,} images; {instruction}")


@takes("store", "bench", "providers", row=Draws, shared=_SHARED)
def in_(
    wanted: Draws,
    kind: KindArgument,
    files: Annotated[list[Path], typer.Argument(help="Filled-in sheets, of one reviewer or of several.")],
    reviewer: ReviewerOption = "",
    qualification: Annotated[
        Path | None,
        typer.Option(
            "--qualification",
            help="CSV of items with known answers (item, correct): raters who miss too many are left out.",
        ),
    ] = None,
    qualified_min: Annotated[
        float, typer.Option("--qualified-min", min=0, max=1, help="Share of these that a rater must have right.")
    ] = 0.8,
) -> None:
    """Store the verdicts of filled-in sheets; a later verdict of a reviewer on an item replaces the earlier one."""
    from tasks.review.qualification import read_qualification

    existing(wanted.store)
    with_answers = [name for name, about in REVIEW_KINDS.items() if about.finds_correct]
    if qualification is not None and kind not in with_answers:
        raise BadInput(f"--qualification is for the kind {' and '.join(with_answers)}, not {kind!r}")
    right_answers = read_qualification(qualification) if qualification else {}
    summary, filled = take_sheets(kind, files, wanted, reviewer, right_answers, qualified_min)
    print(f"{summary}; {REVIEW_KINDS[kind].next}")
    if filled.elsewhere:
        first = f"{len(filled.elsewhere):,} lines are on items that the store does not have, or not any more"
        note(f"{first}: {filled.elsewhere[0]}")


def take_sheets(
    kind: str, files: "Sequence[Path]", draws: Draws, reviewer: str = "", qualifying: dict[str, bool] | None = None,
    qualified_min: float = 0.8,
) -> tuple[str, "Filled"]:  # fmt: skip
    """Store the verdicts of sheets, all of them or none; what was stored in words. Raises BadInput."""
    from schemas.benches.bench import CaseReference
    from tasks.review.qualification import qualified
    from tasks.review.routes import reviewer_name
    from tasks.review.sheets import read_sheets
    from tasks.storage.lock import writing
    from tasks.storage.reviews import add_reviews, take_in_journal
    from tasks.storage.tables import frame_of

    queues = queues_of([kind], draws)
    with writing(draws.store) as store:
        take_in_journal(store)
        filled = read_sheets(store, queues, files, reviewer_name(reviewer), datetime.now(UTC))
        reviews, left_out = filled.reviews, 0
        if qualifying and (finds_correct := REVIEW_KINDS[kind].finds_correct):
            reviews, left_out = qualified(filled.reviews, qualifying, qualified_min, finds_correct)
        add_reviews(store, reviews)
        store.append("case_references", frame_of(CaseReference, filled.references))
    references = len(filled.references)
    words = [_in_words(reviews, queues)] if reviews or not references else []
    words += [f"{references:,} reference{'s' * (references != 1)}"] if references else []
    words += [f"{left_out} rater{'s' * (left_out != 1)} left out"] if qualifying else []
    words += [f"{filled.open:,} left open"] if filled.open else []
    return ", ".join(words), filled


def _in_words(reviews: "Sequence[Review]", queues: "Sequence[ReviewQueue]") -> str:
    people, items = len({review.reviewer for review in reviews}), len({review.item_id for review in reviews})
    of_queues = {review.queue for review in reviews} or {queues[0].name}
    # The verdicts that may be given, once each, in the order of their queues.
    verdicts = dict.fromkeys(choice.verdict for queue in queues if queue.name in of_queues for choice in queue.choices)
    counts = ", ".join(f"{sum(review.verdict == verdict for review in reviews):,} {verdict}" for verdict in verdicts)
    counted = "" if queues[0].many else f" ({counts})"
    return f"{len(reviews):,} verdicts{counted} of {people} reviewer{'s' * (people != 1)} on {items:,} items"


@takes("store", "bench", "providers", "seed", row=Draws, shared=_SHARED)
def results(
    wanted: Draws,
    kind: Annotated[
        str | None, typer.Argument(help=f"What was asked: {_KINDS}.", show_default="agreement and precision of all")
    ] = None,
    battles: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Write preferences as battles, for `curate rate`; verdicts on alarms as labels (hashes)."
        ),
    ] = None,
    as_json: JsonOption = False,
    bootstraps: BootstrapsOption = AGREEMENT_BOOTSTRAPS,
) -> None:
    """Findings of people: agreement of reviewers, precision of detectors, yields, rates, agreement with the votes.

    Preferences become battles with --bench and --out; items and generated need --bench.
    """
    from flows.commands.review.results import print_figures
    from tasks.storage.reviews import journalled

    if kind is not None and kind not in REVIEW_KINDS:
        raise BadInput(f"kind {known_values(kind, REVIEW_KINDS)}")
    chosen = REVIEW_KINDS[kind] if kind else None
    if chosen and chosen.results_of_bench and not wanted.bench:
        raise BadInput(f"the results of {kind} are those of one benchmark; give --bench NAME")
    if battles is not None and not (chosen and chosen.results_in_file):
        in_files = " and ".join(name for name, about in REVIEW_KINDS.items() if about.results_in_file)
        raise BadInput(f"--out {str(battles)!r}: only the results of {in_files} can be written; leave it out")
    opened = existing(wanted.store)
    if waiting := len(journalled(opened)):
        explanation = "are not counted here; the next `curate run`, `review in` or `review serve` takes them in"
        note(f"{waiting} verdicts wait in the journal and {explanation}")
    if chosen and chosen.results:
        chosen.results(ResultsAsked(wanted, battles, as_json, bootstraps))
    else:
        print_figures(figures_of(opened), chosen.queues if chosen else (), as_json)


@takes(*_DRAWN, row=Draws, shared=_SHARED)
def serve_pages(
    wanted: Draws,
    kinds: Annotated[
        list[str] | None, typer.Argument(help=f"What is asked: {_KINDS}.", show_default=", ".join(OF_EVERY_STORE))
    ] = None,
    reviewer: ReviewerOption = "",
    among: AmongOption = None,
    port: PortOption = None,
    no_browser: NoBrowserOption = False,
) -> None:
    """Ask in the browser, by keyboard. A verdict given while a run writes to the store waits in its journal."""
    from tasks.review.routes import reviewer_name

    opened = existing(wanted.store)
    queues = queues_of(kinds or OF_EVERY_STORE, wanted)
    only_among(queues, among)
    _serve(opened, queues, reviewer_name(reviewer), port, not no_browser)


def _serve(store: "Store", queues: "Sequence[ReviewQueue]", name: str, port: int | None, browse: bool) -> None:
    from flows.products import PRODUCTS, explorer_here
    from tasks.review.routes import review_routes
    from tasks.review.session import ReviewSession
    from tasks.shown import Gone

    session = ReviewSession(store, queues, figures_of)
    session.take_in(at_once=False)
    try:
        source = explorer_here().of_store(store, PRODUCTS, dict)
        serve(source, None, port, browse, [lambda port: review_routes(session, port, name)])
    except Gone as gone:
        raise BadInput(f"{store.root!r} cannot be shown: {gone}") from None
    finally:
        session.take_in(at_once=False)
        with suppress(Exception):  # the store may be out of reach by now
            if verdict_count := session.in_journal:
                waiting = "verdict waits" if verdict_count == 1 else "verdicts wait"
                note(f"{verdict_count:,} {waiting} in the journal; the next run takes them in")
