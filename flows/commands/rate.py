"""`curate rate`: a leaderboard from any battle table, or the rating stage of a store."""

import json
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import (
    AnchorOption,
    BootstrapsOption,
    ProviderOption,
    SeedOption,
    anchor_of,
    settings_of,
)
from flows.commands.pipeline import run_stages
from schemas.errors import BadInput
from schemas.rating import Rating

_COLUMNS = ("model", "rating", "ci95_low", "ci95_high", "rank", "battles")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(rate)


def rate(
    battles: Annotated[
        Path | None, typer.Argument(help="Battle table: Parquet, CSV or JSONL with model_a, model_b, winner.")
    ] = None,
    store: Annotated[str | None, typer.Option("--store", help="Rate the kept battles of this store instead.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    anchor: AnchorOption = None,
    bootstraps: BootstrapsOption = 100,
    seed: SeedOption = 0,
    provider: ProviderOption = None,
) -> None:
    """Bradley-Terry ratings with 95 % bootstrap intervals."""
    if (battles is None) == (store is None):
        raise BadInput("give either a battle table or --store DIR")
    if battles is None:
        settings = settings_of(store=store, anchor=anchor, bootstraps=bootstraps, seed=seed, provider=provider)
        run_stages(settings, ("flows.rate", "rate"))
        return
    from tasks.rate.leaderboard import leaderboard
    from tasks.rate.votes import read_battles, votes

    model, rating = anchor_of(anchor) if anchor else (None, 1000.0)
    told = votes(read_battles(battles))
    if not len(told.score):
        raise BadInput(f"{str(battles)!r} holds no battle between two different models")
    rows = leaderboard(told, "overall", bootstraps=bootstraps, seed=seed, anchor_model=model, anchor_rating=rating)
    for row in rows if as_json else ():
        print(json.dumps(row.model_dump(include=set(_COLUMNS))))
    if not as_json:
        _print(rows)


def _print(rows: list[Rating]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("rank", "model", "rating", "95 % interval", "battles", ""):
        table.add_column(column, justify="left" if column in ("model", "") else "right")
    for row in rows:
        interval = f"{row.ci95_low:.0f} to {row.ci95_high:.0f}"
        table.add_row(str(row.rank), row.model, f"{row.rating:.1f}", interval, f"{row.battles:,}", " ".join(row.flags))
    Console(markup=False).print(table)
