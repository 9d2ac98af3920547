"""`curate rate`: rating tables from any battle table, or the rating stage of a store."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import (
    AnchorOption,
    BootstrapsOption,
    BothBadOption,
    ClusterOption,
    IntervalOption,
    JsonOption,
    OutliersOption,
    ProviderOption,
    SeedOption,
    StyleOption,
    day_of,
    settings_of,
)
from flows.commands.pipeline import run_stages
from flows.commands.rating_output import print_rows
from schemas.errors import BadInput, known_values
from schemas.rating import BothBad, Interval, Rating, StylePreset
from schemas.row import Row
from schemas.settings import Settings
from tasks.runtime.untrusted import one_line

if TYPE_CHECKING:
    import polars as pl

    from tasks.leaderboard.rating_tables import RatingTables

_COLUMNS = {"model", "rating", "ci95_low", "ci95_high", "rank", "battles"}


BattlesArgument = Annotated[
    str | None,
    typer.Argument(
        help="Battle table: Parquet, CSV or JSONL with model_a, model_b, winner; a folder of Parquet; or a "
        "release, also at s3://…"
    ),
]
StoreInstead = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="Rate the kept battles of this store instead and store the boards; with --table, --slice and the like, "
        "print them and store nothing.",
    ),
]
TableOption = Annotated[
    str,
    typer.Option(
        "--table",
        help="ratings, style_control, style_coefficients, rank_changes, pair_records, pair_cards, win_rates, "
        "vote_shares, vote_statistics, length_differences, elo_ratings or outlier_judges.",
    ),
]
SlicesOption = Annotated[
    list[str] | None, typer.Option("--slice", help="Slice such as language:English, or all; repeatable.")
]
AgainstOption = Annotated[
    Path | None, typer.Option("--against", help="Print the agreement with this board, a table of ratings.")
]
ReferenceOption = Annotated[str | None, typer.Option("--reference", help="Model that win rates are computed against.")]
EloOption = Annotated[float, typer.Option("--elo-k", help="Rating points one vote can move in elo_ratings.")]
NamedOption = Annotated[
    bool,
    typer.Option("--named", help="Rate votes on models whose names were shown, too; boards are flagged named_votes."),
]
SinceVoteOption = Annotated[str | None, typer.Option("--since", help="First day of votes, YYYY-MM-DD (UTC).")]
UntilVoteOption = Annotated[str | None, typer.Option("--until", help="Last day of votes, YYYY-MM-DD (UTC).")]


def rate(
    battles: BattlesArgument = None,
    store: StoreInstead = None,
    as_json: JsonOption = False,
    table: TableOption = "ratings",
    slices: SlicesOption = None,
    against: AgainstOption = None,
    anchor: AnchorOption = None,
    reference: ReferenceOption = None,
    interval: IntervalOption = Interval.SANDWICH,
    cluster: ClusterOption = None,
    both_bad: BothBadOption = BothBad.TIE,
    style: StyleOption = StylePreset.FASTCHAT,
    elo_k: EloOption = 4.0,
    exclude_outliers: OutliersOption = False,
    named: NamedOption = False,
    since: SinceVoteOption = None,
    until: UntilVoteOption = None,
    bootstraps: BootstrapsOption = 100,
    seed: SeedOption = 0,
    provider: ProviderOption = None,
) -> None:
    """Bradley-Terry ratings with 95 % intervals, and related tables."""
    if (battles is None) == (store is None):
        raise BadInput("give either a battle table or --store DIR")
    settings = settings_of(
        store=store or "",
        anchor=anchor,
        bootstraps=bootstraps,
        seed=seed,
        provider=provider,
        interval=interval,
        cluster=cluster,
        both_bad=both_bad,
        style=style,
        exclude_outliers=exclude_outliers,
        elo_k=elo_k,
    )
    view = _View(table, tuple(slices or ()), reference, against, as_json, named)
    window = day_of("since", since), day_of("until", until)
    if store is not None and view == _View(as_json=as_json) and window == (None, None):
        run_stages(settings, ("flows.rate", "rate"))
    else:
        _rate_table(battles, settings, view, window)


@dataclass(frozen=True)
class _View:
    """What to print: rows of `table`, or their agreement with the board `against`."""

    table: str = "ratings"
    slices: tuple[str, ...] = ()
    reference: str | None = None
    against: Path | None = None
    as_json: bool = False
    named: bool = False


def _battles(battles: str | None, settings: Settings, named: bool) -> "pl.DataFrame":
    """The battles of a file, folder or release, or without one the kept battles of the store."""
    if battles is not None:
        from tasks.leaderboard.battle_files import read_battles
        from tasks.release.fetched import fetched, is_remote

        if is_remote(battles):
            with fetched(battles, "battle") as folder:
                return read_battles(folder / "battle", named)
        table = Path(battles)
        return read_battles(table / "battle" if (table / "manifest.json").is_file() else table, named)
    from tasks.leaderboard.steps import rated_battles
    from tasks.providers import Providers
    from tasks.signals.steps import signal_versions
    from tasks.storage.tables import Store

    return rated_battles(Store.existing(settings.store), signal_versions(Providers(settings.providers)), named)


def _rate_table(battles: str | None, settings: Settings, view: _View, window: tuple[date | None, date | None]) -> None:
    from tasks.leaderboard.rating_tables import TABLES, RatingTables, method_of, within

    if view.table not in TABLES:
        raise BadInput(f"--table {known_values(view.table, TABLES)}")
    chosen = within(_battles(battles, settings, view.named), *window)
    outliers = settings.exclude_outlier_judges
    tables = RatingTables(chosen, method_of(settings), view.slices, view.reference, outliers)
    if tables.rated.is_empty():
        raise BadInput(f"{str(battles or settings.store)!r} holds no battle between two different models")
    if tables.same_model:
        print(f"curate: note: {tables.same_model:,} battles of a model with itself are left out", file=sys.stderr)
    if view.named and "named" in chosen.columns:
        print(f"curate: note: {chosen['named'].sum():,} votes are on models whose names were shown", file=sys.stderr)
    if "style" in view.table or view.table == "rank_changes":
        _note_unmeasured(tables.rated.height - tables.measured.height)
    if view.against is None:
        only_stable = view.table == "ratings" and not view.slices
        _print_table(tables.rows(view.table), view.table, view.as_json, only_stable)
    else:
        _print_agreement(tables, view.table, view.against, view.as_json)


def _note_unmeasured(battles: int) -> None:
    if battles:
        print(f"curate: note: {battles:,} battles lack a count that style control needs; left out", file=sys.stderr)


def _print_table(rows: Sequence[Row], table: str, as_json: bool, only_stable: bool) -> None:
    """Print rows. With `only_stable`, JSON rows have the six stable columns and flags go to stderr."""
    if not as_json:
        print_rows(table, rows)
        return
    if only_stable:
        _warn([row for row in rows if isinstance(row, Rating)])
    for row in rows:
        print(json.dumps(row.model_dump(mode="json", include=_COLUMNS if only_stable else None)))


def _print_agreement(tables: "RatingTables", table: str, against: Path, as_json: bool) -> None:
    from tasks.leaderboard.agreement import agreement
    from tasks.leaderboard.battle_files import read_board

    if table not in ("ratings", "style_control") or len(tables.slices) > 1 or "all" in tables.slices:
        raise BadInput("--against compares one board: give --table ratings or style_control, and at most one --slice")
    board = [row for row in tables.rows(table) if isinstance(row, Rating)]
    name = tables.slices[0] if tables.slices else "overall" if table == "ratings" else table
    found = agreement(board, read_board(against, name))
    if as_json:
        print(json.dumps(found.model_dump(mode="json")))
    else:
        print_rows("agreement", [found])


def _warn(rows: list[Rating]) -> None:
    """Print flags to stderr, because plain JSON rows have no column for them."""
    for flag in ("only_wins", "only_losses", "unbounded", "separate_group"):
        models = [one_line(row.model) for row in rows if flag in row.flags]
        if models:
            print(f"curate: note: {flag}: {', '.join(models[:10])}{' …' if len(models) > 10 else ''}", file=sys.stderr)
