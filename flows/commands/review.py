"""`curate review`: held conversations and reviewers' verdicts, as a list or in the browser."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.agreement.sheet import TuplesOption
from flows.commands.options import JsonOption, SeedOption, StoreOption, settings_of
from flows.commands.view import NoBrowserOption, PortOption, serve
from schemas.errors import BadInput
from tasks.runtime.untrusted import json_text, one_line

if TYPE_CHECKING:
    from schemas.row import Row
    from tasks.agreement.preferences import Tuple
    from tasks.agreement.text_metrics.stored import Stored
    from tasks.explore.review.queues import ReviewQueue
    from tasks.explore.review.session import Figures
    from tasks.storage.tables import Store


def review(
    store: StoreOption,
    file: Annotated[Path | None, typer.Argument(help="The list with its `verdict` column filled in.")] = None,
    serve_pages: Annotated[bool, typer.Option("--serve", help="Review in the browser instead, by keyboard.")] = False,
    results: Annotated[
        bool, typer.Option("--results", help="Print agreement of reviewers and precision of detectors instead.")
    ] = False,
    reviewer: Annotated[str, typer.Option("--reviewer", help="Your name, stored beside your verdicts.")] = "",
    sample: Annotated[
        int, typer.Option("--sample", min=1, help="With --serve: prompts, and findings of each type, drawn by hash.")
    ] = 100,
    per_pair: Annotated[
        int, typer.Option("--per-pair", min=0, help="With --serve: battles of every pair of models for experts.")
    ] = 0,
    bench: Annotated[
        str | None,
        typer.Option("--bench", help="With --serve: ask which of two answers to this written benchmark is better."),
    ] = None,
    tuples: TuplesOption = 1000,
    port: PortOption = None,
    no_browser: NoBrowserOption = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Print held conversations as CSV; with a filled-in FILE, store its verdicts for the next decisions.

    With --serve, people decide in the browser about held conversations, say which tags apply, and sort out false alarms
    of the detectors of faces and personal data. A verdict given while a run writes to the store waits in its journal.
    """
    from tasks.explore.review.routes import reviewer_name
    from tasks.storage.reviews import journalled
    from tasks.storage.tables import Store

    if sum((file is not None, serve_pages, results)) > 1:
        raise BadInput("give one of FILE, --serve and --results")
    opened, name = Store.existing(store), reviewer_name(reviewer)
    if results:
        if waiting := len(journalled(opened)):
            print(
                f"curate: {waiting} verdicts wait in the journal and are not counted here; "
                "the next `curate run` or `curate review --serve` takes them in",
                file=sys.stderr,
            )
        _print_results(figures_of(opened), as_json)
    elif serve_pages:
        asked = [*queues(sample, seed), *([battles_for_experts(store, per_pair)] if per_pair else [])]
        asked += [pairs_of_answers(opened, bench, tuples, seed)] if bench else []
        _serve(opened, asked, name, port, not no_browser)
    elif file is not None:
        _take(opened, file, name)
    else:
        from tasks.policy.review import held_csv

        print(held_csv(opened), end="")


def queues(sample: int, seed: int) -> "Sequence[ReviewQueue]":
    """Everything that people can review."""
    from tasks.bench.failure_review import FailuresQueue
    from tasks.bench.generate.people.queue import GeneratedQueue
    from tasks.bench.written.queue import WrittenQueue
    from tasks.policy.review import HeldQueue
    from tasks.signals.reviews.findings import FacesQueue, ImageTextsQueue, PersonalDataQueue
    from tasks.signals.reviews.tags import TagsQueue

    drawn = [make(sample, seed) for make in (TagsQueue, FacesQueue, PersonalDataQueue, ImageTextsQueue)]
    return [HeldQueue(), *drawn, FailuresQueue(), WrittenQueue(), GeneratedQueue()]


def battles_for_experts(store: str, per_pair: int) -> "ReviewQueue":
    """Blinded battles. Raises BadInput for a store without any."""
    from flows.commands.agreement.sheet import anonymous_battles_of
    from tasks.agreement.sheet_queue import SheetQueue

    settings = settings_of(store=store)
    anonymous_battles_of(settings)
    return SheetQueue(lambda: anonymous_battles_of(settings), per_pair)


def pairs_of_answers(store: "Store", bench: str, count: int, seed: int) -> "ReviewQueue":
    """Drawn pairs of answers. Raises BadInput for a benchmark without any."""
    from flows.commands.agreement.sheet import preferences_of
    from tasks.agreement.preference_queue import PreferenceQueue
    from tasks.agreement.preferences import drawn

    preferences_of(store, bench, True)

    def chosen(store: "Store") -> "tuple[Sequence[Tuple], Stored]":
        every, known = preferences_of(store, bench, True)
        return drawn(every, count, seed), known

    return PreferenceQueue(chosen)


def figures_of(store: "Store") -> "Figures":
    """Agreement of reviewers and precision of detectors."""
    from tasks.agreement.reviewers import reviewer_agreements
    from tasks.explore.review.session import Figures
    from tasks.storage.queries.findings import detector_precisions
    from tasks.storage.reviews import reviews_of

    return Figures(reviewer_agreements(reviews_of(store)), detector_precisions(store))


def _take(store: "Store", file: Path, reviewer: str) -> None:
    from tasks.policy.review import take_verdicts
    from tasks.storage.lock import writing
    from tasks.storage.reviews import take_in

    with writing(store.root):
        take_in(store)
        taken = take_verdicts(store, file, reviewer, datetime.now(UTC))
    print(f"{taken['release']} to release, {taken['drop']} to drop; `curate decide` or `curate run` applies them")


def _serve(store: "Store", asked: "Sequence[ReviewQueue]", name: str, port: int | None, browse: bool) -> None:
    from tasks.explore.of_store import OfStore
    from tasks.explore.review.routes import review_routes
    from tasks.explore.review.session import ReviewSession
    from tasks.explore.source import Gone
    from tasks.policy.explained import explained

    session = ReviewSession(store, asked, figures_of)
    session.take_in(at_once=False)
    try:
        serve(OfStore(store, explained), None, port, browse, [lambda port: review_routes(session, port, name)])
    except Gone as gone:
        raise BadInput(f"{store.root!r} cannot be shown: {gone}") from None
    finally:
        session.take_in(at_once=False)
        with suppress(Exception):  # the store may be out of reach by now
            if left := session.in_journal:
                waiting = "verdict waits" if left == 1 else "verdicts wait"
                print(f"curate: {left:,} {waiting} in the journal; the next run takes them in", file=sys.stderr)


def _print_results(figures: "Figures", as_json: bool) -> None:
    rows: list[Row] = [*figures.precisions, *figures.agreements]
    if as_json:
        for row in rows:
            print(json_text(row.model_dump(mode="json")))
        return
    if not rows:
        print("no finding of a detector was reviewed, and no item by two reviewers; see `curate review --serve`")
    for row in figures.precisions:
        interval = f"[{row.ci95_low:.3f}, {row.ci95_high:.3f}]"
        print(
            f"{row.detector:<9} {row.type:<16} {one_line(row.provider, 40):<24} {row.confirmed:>5,} of"
            f" {row.reviewed:>5,} confirmed  precision {row.precision:.3f} {interval}"
            + (f"  {row.disagreed} disagreed" if row.disagreed else "")
        )
    for each in figures.agreements:
        pair = f"{one_line(each.a, 30)}, {one_line(each.b, 30)}"
        ends = (each.kappa, each.kappa_ci95_low, each.kappa_ci95_high)
        kappa = "-" if None in ends else "{:.3f} [{:.3f}, {:.3f}]".format(*ends)
        print(f"{each.queue:<26} {pair:<30} {each.items:>5,} items  agreement {each.agreement:.3f}  kappa {kappa}")
