"""`curate review`: everything that people are asked, as sheets or in the browser, and what they said."""

import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.agreement.agree import ROUNDS
from flows.commands.options import BootstrapsOption, JsonOption, ProviderOption, SeedOption, StoreOption, settings_of
from flows.commands.review_kinds import KINDS, OF_EVERY_STORE, figures_of, queues_of
from flows.commands.view import NoBrowserOption, PortOption, serve
from schemas.errors import BadInput, known_values
from schemas.review import Draws

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schemas.review import Review
    from tasks.review.review_queue import ReviewQueue
    from tasks.review.sheets import Filled
    from tasks.storage.tables import Store

_KINDS = ", ".join(KINDS)
KindArgument = Annotated[str, typer.Argument(help=f"What is asked: {_KINDS}.")]
SampleOption = Annotated[int, typer.Option("--sample", min=1, help="Prompts, and findings of each type, by hash.")]
PerPairOption = Annotated[int, typer.Option("--per-pair", min=1, help="Battles of every pair of models.")]
BenchOption = Annotated[str | None, typer.Option("--bench", help="Benchmark of items, generated, or preferences.")]
TuplesOption = Annotated[int, typer.Option("--tuples", min=1, help="Pairs of answers, drawn uniformly (preferences).")]
LanguageOption = Annotated[
    str | None, typer.Option("--language", help="Battles of one language: its English name, or its ISO code.")
]
SliceOption = Annotated[
    str | None, typer.Option("--slice", help="Battles of one slice of boards, such as category:creative_writing.")
]
ReviewerOption = Annotated[str, typer.Option("--reviewer", help="Who gave the verdicts that name nobody.")]


def family() -> typer.Typer:
    """The commands of `curate review`."""
    review = typer.Typer(no_args_is_help=True, help="Ask people, in the browser or in files, and see what they say.")
    for name, command in (("out", out), ("in", take), ("results", results), ("serve", serve_pages)):
        review.command(name)(command)
    return review


def _providers(given: list[str] | None) -> dict[str, str]:
    return settings_of(store="", provider=given).providers


def out(
    kind: KindArgument,
    store: StoreOption,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="New folder for sheet.csv and images/.", show_default="the sheet alone, on stdout"),
    ] = None,
    sample: SampleOption = 100,
    per_pair: PerPairOption = 5,
    bench: BenchOption = None,
    tuples: TuplesOption = 1000,
    language: LanguageOption = None,
    slice_name: SliceOption = None,
    hidden: Annotated[bool, typer.Option("--hidden", help="Preferences on hidden items, too.")] = False,
    guided: Annotated[
        bool, typer.Option("--guided/--unguided", help="Whether generated items have the guidelines of aspects.")
    ] = True,
    unmasked: Annotated[
        bool, typer.Option("--unmasked", help="Alarms with the personal data and the images that they are about.")
    ] = False,
    provider: ProviderOption = None,
    seed: SeedOption = 0,
) -> None:
    """Write what is asked as a sheet (CSV) in which people fill in the columns verdict and reviewer."""
    from tasks.review.sheets import sheet_csv, write_sheet
    from tasks.storage.tables import Store

    opened = Store.existing(store)
    wanted = Draws(
        store=store, sample=sample, seed=seed, per_pair=per_pair, language=language, slice=slice_name, bench=bench,
        tuples=tuples, hidden=hidden, guided=guided, providers=_providers(provider),
    )  # fmt: skip
    queues = queues_of([kind], wanted)
    if folder is None:
        print(sheet_csv(opened, queues, unmasked), end="")
        return
    written = write_sheet(opened, queues, folder, unmasked)
    print(folder / "sheet.csv")
    asked = (
        "fill in the columns verdict and reviewer" + ", or name each copy after its reviewer" * queues[0].named_by_file
    )
    print(f"curate: {written.items:,} items and {written.images:,} images; {asked}", file=sys.stderr)


def take(
    kind: KindArgument,
    files: Annotated[list[Path], typer.Argument(help="Filled-in sheets, of one reviewer or of several.")],
    store: StoreOption,
    reviewer: ReviewerOption = "",
    bench: BenchOption = None,
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
    provider: ProviderOption = None,
) -> None:
    """Store the verdicts of filled-in sheets; a later verdict of a reviewer on an item replaces the earlier one."""
    from tasks.review.items import read_qualification
    from tasks.storage.tables import Store

    Store.existing(store)
    if qualification is not None and kind != "items":
        raise BadInput(f"--qualification is for the kind items, not {kind!r}")
    known = read_qualification(qualification) if qualification else {}
    wanted = Draws(store=store, bench=bench, providers=_providers(provider))
    said, filled = take_sheets(kind, files, wanted, reviewer, known, qualified_min)
    print(f"{said}; {KINDS[kind].next}")
    if filled.elsewhere:
        first = f"{len(filled.elsewhere):,} lines are on items that the store does not have, or not any more"
        print(f"curate: {first}: {filled.elsewhere[0]}", file=sys.stderr)


def take_sheets(
    kind: str,
    files: "Sequence[Path]",
    wanted: Draws,
    reviewer: str = "",
    known: dict[str, bool] | None = None,
    qualified_min: float = 0.8,
) -> tuple[str, "Filled"]:
    """Store the verdicts of sheets, all of them or none; what was stored in words. Raises BadInput."""
    from tasks.review.items import qualified
    from tasks.review.routes import reviewer_name
    from tasks.review.sheets import read_sheets
    from tasks.storage.lock import writing
    from tasks.storage.reviews import add_reviews, take_in_journal

    queues = queues_of([kind], wanted)
    with writing(wanted.store) as store:
        take_in_journal(store)
        filled = read_sheets(store, queues, files, reviewer_name(reviewer), datetime.now(UTC))
        given, left_out = qualified(filled.reviews, known, qualified_min) if known else (filled.reviews, 0)
        add_reviews(store, given)
    words = [_in_words(given, queues)]
    words += [f"{left_out} rater{'s' * (left_out != 1)} left out"] if known else []
    words += [f"{filled.open:,} left open"] if filled.open else []
    return ", ".join(words), filled


def _in_words(given: "Sequence[Review]", queues: "Sequence[ReviewQueue]") -> str:
    people, items = len({each.reviewer for each in given}), len({each.item_id for each in given})
    verdicts = [choice.verdict for choice in queues[0].choices]
    counts = ", ".join(f"{sum(each.verdict == verdict for each in given):,} {verdict}" for verdict in verdicts)
    counted = "" if queues[0].many else f" ({counts})"
    return f"{len(given):,} verdicts{counted} of {people} reviewer{'s' * (people != 1)} on {items:,} items"


def results(
    store: StoreOption,
    kind: Annotated[
        str | None, typer.Argument(help=f"What was asked: {_KINDS}.", show_default="agreement and precision of all")
    ] = None,
    bench: BenchOption = None,
    battles: Annotated[
        Path | None, typer.Option("--battles", help="Write preferences here as battles, for `curate rate`.")
    ] = None,
    provider: ProviderOption = None,
    as_json: JsonOption = False,
    bootstraps: BootstrapsOption = ROUNDS,
    seed: SeedOption = 0,
) -> None:
    """Findings of people: agreement of reviewers, precision of detectors, yields, rates, agreement with the votes.

    Preferences become battles with --bench and --battles; items and generated need --bench.
    """
    import flows.commands.review_results as said
    from tasks.storage.reviews import journalled
    from tasks.storage.tables import Store

    if kind is not None and kind not in KINDS:
        raise BadInput(f"kind {known_values(kind, KINDS)}")
    if kind in ("items", "generated") and not bench:
        raise BadInput(f"the results of {kind} are those of one benchmark; give --bench NAME")
    if (kind == "preferences") != (battles is not None and bench is not None):
        raise BadInput("preferences need --bench NAME and --battles FILE, and no other kind takes --battles")
    opened, wanted = Store.existing(store), Draws(store=store, bench=bench, seed=seed, providers=_providers(provider))
    if waiting := len(journalled(opened)):
        told = "are not counted here; the next `curate run`, `review in` or `review serve` takes them in"
        print(f"curate: {waiting} verdicts wait in the journal and {told}", file=sys.stderr)
    if kind == "items":
        said.print_yields(opened, bench or "", as_json)
    elif kind == "generated":
        said.print_rates(opened, bench or "", as_json)
    elif kind == "battles":
        said.print_experts(wanted, as_json, bootstraps)
    elif battles is not None:
        said.write_battles(wanted, battles)
    else:
        said.print_figures(figures_of(opened), KINDS[kind].queues if kind else (), as_json)


def serve_pages(
    store: StoreOption,
    kinds: Annotated[
        list[str] | None, typer.Argument(help=f"What is asked: {_KINDS}.", show_default=", ".join(OF_EVERY_STORE))
    ] = None,
    reviewer: ReviewerOption = "",
    sample: SampleOption = 100,
    per_pair: PerPairOption = 5,
    bench: BenchOption = None,
    tuples: TuplesOption = 1000,
    language: LanguageOption = None,
    slice_name: SliceOption = None,
    port: PortOption = None,
    no_browser: NoBrowserOption = False,
    provider: ProviderOption = None,
    seed: SeedOption = 0,
) -> None:
    """Ask in the browser, by keyboard. A verdict given while a run writes to the store waits in its journal."""
    from tasks.review.routes import reviewer_name
    from tasks.storage.tables import Store

    opened = Store.existing(store)
    wanted = Draws(
        store=store, sample=sample, seed=seed, per_pair=per_pair, language=language, slice=slice_name, bench=bench,
        tuples=tuples, providers=_providers(provider),
    )  # fmt: skip
    queues = queues_of(kinds or OF_EVERY_STORE, wanted)
    _serve(opened, queues, reviewer_name(reviewer), port, not no_browser)


def _serve(store: "Store", queues: "Sequence[ReviewQueue]", name: str, port: int | None, browse: bool) -> None:
    from tasks.explore.of_store import OfStore
    from tasks.explore.source import Gone
    from tasks.policy.explained import explained
    from tasks.review.routes import review_routes
    from tasks.review.session import ReviewSession

    session = ReviewSession(store, queues, figures_of)
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
