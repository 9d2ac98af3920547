"""`curate judge sheet`: blinded battles for experts, and what they say of the people's votes."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.agreement.agree import ROUNDS
from flows.commands.agreement.printing import print_agreement, print_raters
from flows.commands.options import BootstrapsOption, JsonOption, ProviderOption, SeedOption, StoreOption, settings_of
from flows.commands.rating_output import print_rows
from schemas.errors import BadInput

if TYPE_CHECKING:
    import polars as pl

    from schemas.settings import Settings

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


def sheet(
    store: StoreOption,
    per_pair: PerPairOption = 5,
    out: OutOption = None,
    read: ReadOption = None,
    provider: ProviderOption = None,
    as_json: JsonOption = False,
    bootstraps: BootstrapsOption = ROUNDS,
    seed: SeedOption = 0,
) -> None:
    """Write battles without models and votes for experts to judge; with --read, say how far all agree."""
    if (out is None) == (not read):
        raise BadInput("give either --out DIR, for a new sheet, or --read FILE, a filled-in one")
    settings = settings_of(store=store, provider=provider)
    if out:
        _write(settings, per_pair, out)
    else:
        _print(settings, read or [], as_json, bootstraps, seed)


def _battles(settings: "Settings") -> "pl.DataFrame":
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
        drawn = drawn_evenly(_battles(settings), per_pair)
        images = write_sheet(store, drawn, out)
    print(out / "sheet.csv")
    told = "fill in the column label with left, right, tie, both bad or NA, and name each copy after its expert"
    print(f"curate: {drawn.height:,} battles and {images:,} images; {told}", file=sys.stderr)


def _print(settings: "Settings", files: list[Path], as_json: bool, rounds: int, seed: int) -> None:
    from tasks.agreement.experts import experts
    from tasks.agreement.sheets import people_of, read_sheet

    battles = _battles(settings)
    sheets = [read_sheet(file, file.stem, battles["question_id"].to_list()) for file in files]
    found = experts(people_of(battles), sheets, battles, rounds, seed)
    print_agreement(found.pairs, as_json)
    print_raters(found.raters, as_json)
    if found.boards is None:
        print("curate: fewer than two models have an expert's verdict, so there is no board", file=sys.stderr)
    elif as_json:
        print(json.dumps({"board": "experts", "reference": "people", **found.boards.model_dump(mode="json")}))
    else:
        print_rows("boards", [found.boards])
