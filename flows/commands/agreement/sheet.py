"""`curate judge sheet`: blinded battles for experts, and what they say of the people's votes."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.agreement.agree import ROUNDS
from flows.commands.agreement.printing import print_agreement, print_raters
from flows.commands.options import BootstrapsOption, JsonOption, ProviderOption, SeedOption, StoreOption, settings_of
from flows.commands.tables import print_rows
from schemas.errors import BadInput

if TYPE_CHECKING:
    import polars as pl

    from schemas.settings import Settings
    from tasks.agreement.preferences import Tuple
    from tasks.agreement.text_metrics.stored import Stored
    from tasks.storage.tables import Store

PerPairOption = Annotated[
    int, typer.Option("--per-pair", min=1, help="Battles of every pair of models; fewer where there are fewer.")
]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="New folder for sheet.csv and images/, with which experts can work.")
]
ReadOption = Annotated[
    list[Path] | None,
    typer.Option("--read", help="A filled-in sheet, named after its expert; repeatable. Prints the agreement."),
]


BenchOption = Annotated[
    str | None,
    typer.Option("--bench", help="Draw pairs of answers to this written benchmark, for a forced choice, instead."),
]
TuplesOption = Annotated[int, typer.Option("--tuples", min=1, help="With --bench: pairs of answers, drawn uniformly.")]
HiddenOption = Annotated[bool, typer.Option("--hidden", help="With --bench: hidden items and their references, too.")]
BattlesOption = Annotated[
    Path | None, typer.Option("--battles", help="With --bench: write the choices here, for `curate rate`.")
]


def sheet(
    store: StoreOption,
    bench: BenchOption = None,
    tuples: TuplesOption = 1000,
    hidden: HiddenOption = False,
    battles: BattlesOption = None,
    per_pair: PerPairOption = 5,
    out: OutOption = None,
    read: ReadOption = None,
    reviews: Annotated[
        bool,
        typer.Option("--reviews", help="Read what people said in `curate review --serve`."),
    ] = False,
    provider: ProviderOption = None,
    as_json: JsonOption = False,
    bootstraps: BootstrapsOption = ROUNDS,
    seed: SeedOption = 0,
) -> None:
    """Write battles without models and votes for experts to judge; with --read or --reviews, say how far all agree.

    With --bench, answers to a written benchmark for a forced choice by several raters, which --read makes battles of.
    """
    if (out is None) == (not read and not reviews):
        raise BadInput("give either --out DIR, for a new sheet, or --read FILE, a filled-in one, or --reviews")
    settings = settings_of(store=store, provider=provider)
    if (bench is None or out is not None) != (battles is None):
        raise BadInput("--battles FILE goes with --bench NAME and --read FILE or --reviews; give all, or leave it out")
    if bench and out:
        _write_preferences(settings, bench, hidden, (tuples, seed), out)
    elif bench and battles:
        _read_preferences(settings, bench, hidden, (read or [], reviews), battles)
    elif out:
        _write(settings, per_pair, out)
    else:
        _print(settings, read or [], reviews, as_json, bootstraps, seed)


def preferences_of(store: "Store", bench: str, hidden: bool) -> "tuple[list[Tuple], Stored]":
    """Every two answers to the items of a written benchmark, and their texts. Raises BadInput when there are none."""
    from tasks.agreement.preferences import tuples
    from tasks.agreement.text_metrics.stored import stored
    from tasks.storage.queries.benches.written_items import items_for_judging

    known = stored(store, bench, True)
    every = tuples(items_for_judging(store, bench), known, hidden)
    if not every:
        raise BadInput(f"--bench {bench!r}: no item has the answers of two models, or one and a reference")
    return every, known


def _write_preferences(settings: "Settings", bench: str, hidden: bool, draw: tuple[int, int], out: Path) -> None:
    from tasks.agreement.preferences import drawn, write_preferences
    from tasks.storage.lock import writing

    with writing(settings.store) as store:
        every, known = preferences_of(store, bench, hidden)
        images = write_preferences(store, chosen := drawn(every, *draw), known, out)
    print(out / "sheet.csv")
    told = "fill in the column label with left or right, and name each copy after its rater"
    print(f"curate: {len(chosen):,} pairs of answers and {images:,} images; {told}", file=sys.stderr)


def _read_preferences(
    settings: "Settings", bench: str, hidden: bool, given: tuple[list[Path], bool], battles: Path
) -> None:
    """Write the choices of sheets, and with `given[1]` of the review pages, as battles."""
    from tasks.agreement.preference_queue import reviewed_choices
    from tasks.agreement.preferences import choices_of, majority_counts, preferred
    from tasks.storage.lock import writing
    from tasks.storage.user_ids import Pseudonyms, store_key

    sheets, reviews = given
    with writing(settings.store) as store:
        every, _ = preferences_of(store, bench, hidden or reviews)
        choices = [*choices_of(sheets), *(reviewed_choices(store) if reviews else ())]
        found = preferred(choices, every, Pseudonyms(store_key(store)))
    found.battles.write_csv(battles)
    print(battles)
    votes = ", ".join(f"{pairs:,} with {count}" for count, pairs in majority_counts(found.battles).items())
    told = f"{found.battles.height:,} choices; pairs by number of choices: {votes}"
    print(f"curate: {told}; {found.open:,} left open, {found.unknown:,} on other answers", file=sys.stderr)


def anonymous_battles_of(settings: "Settings") -> "pl.DataFrame":
    """The anonymous battles that a release would hold. Raises BadInput for a store without any."""
    from flows.evaluate import released_battles
    from tasks.storage.queries.shown_battles import anonymous_battles

    battles = anonymous_battles(released_battles(settings))
    if battles.is_empty():
        raise BadInput(f"store {settings.store!r} has no kept anonymous battle; a sheet needs some")
    return battles


def _write(settings: "Settings", per_pair: int, out: Path) -> None:
    from tasks.agreement.sheets import drawn_evenly, write_sheet
    from tasks.storage.lock import writing

    with writing(settings.store) as store:
        drawn = drawn_evenly(anonymous_battles_of(settings), per_pair)
        images = write_sheet(store, drawn, out)
    print(out / "sheet.csv")
    told = "fill in the column label with left, right, tie, both bad or NA, and name each copy after its expert"
    print(f"curate: {drawn.height:,} battles and {images:,} images; {told}", file=sys.stderr)


def _print(settings: "Settings", files: list[Path], reviews: bool, as_json: bool, rounds: int, seed: int) -> None:
    from tasks.agreement.experts import experts
    from tasks.agreement.sheet_queue import reviewed_sheets
    from tasks.agreement.sheets import people_of, read_sheet
    from tasks.storage.tables import Store

    battles = anonymous_battles_of(settings)
    ids = battles["question_id"].to_list()
    sheets = [read_sheet(file, file.stem, ids) for file in files]
    if reviews:
        sheets += reviewed_sheets(Store.existing(settings.store), ids)
    if not any(sheet.rows.height for sheet in sheets):
        raise BadInput("no expert reviewed a battle of this store; see `curate review --serve --per-pair N`")
    found = experts(people_of(battles), sheets, battles, rounds, seed)
    print_agreement(found.pairs, as_json)
    print_raters(found.raters, as_json)
    if found.boards is None:
        print("curate: fewer than two models have an expert's verdict, so there is no board", file=sys.stderr)
    elif as_json:
        print(json.dumps({"board": "experts", "reference": "people", **found.boards.model_dump(mode="json")}))
    else:
        print_rows("boards", [found.boards])
