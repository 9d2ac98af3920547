"""`curate rate`: rating tables from any battle table, or the rating stage of a store."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.options import JsonOption, existing, measured_versions, takes
from flows.commands.pipeline import run_stages
from flows.commands.tables import note, print_rows
from flows.rated_battles import RatingView, rating_tables
from schemas.errors import BadInput
from schemas.rating import Rating
from schemas.row import Row
from schemas.settings import Settings
from tasks.runtime.untrusted import one_line

if TYPE_CHECKING:
    from tasks.leaderboard.rating_tables import RatingTables

_COLUMNS = {"model", "rating", "ci95_low", "ci95_high", "rank", "battles"}


BattlesArgument = Annotated[
    str | None,
    typer.Argument(
        help="Battle table: Parquet, CSV, Arrow or JSON with model_a, model_b, winner; a folder of Parquet; or a "
        "release, also at s3://…"
    ),
]
TableOption = Annotated[
    str,
    typer.Option(
        "--table",
        help="ratings, style_control, style_coefficients, rank_changes, pair_records, pair_cards, win_rates, "
        "vote_shares, vote_statistics, length_differences, elo_ratings, outlier_judges, suspects (voters who pull one "
        "model), vote_checks, fragility (how few votes change the order), plan (how many more votes separate "
        "neighbours, on which pairs), or who was given what: exposure, model_lives, months, best_of.",
    ),
]
SlicesOption = Annotated[
    list[str] | None, typer.Option("--slice", help="Slice such as language:English, or all; repeatable.")
]
AgreementOption = Annotated[
    Path | None, typer.Option("--agreement", help="Print the agreement with this board, a table of ratings.")
]
ReferenceOption = Annotated[str | None, typer.Option("--reference", help="Model that win rates are computed against.")]
NamedOption = Annotated[
    bool,
    typer.Option("--named", help="Rate votes on models whose names were shown, too; boards are flagged named_votes."),
]


LikeOption = Annotated[
    str | None,
    typer.Option(
        "--like",
        metavar="TEXT|ID",
        help="A board for prompts like this text or this conversation's or battle's prompt, or for pictures like this "
        "image, from the votes of --store: they weigh by the cosine of their prompts' stored vectors.",
    ),
]
LikeWidthOption = Annotated[
    float,
    typer.Option(
        "--like-width",
        min=0.01,
        help="Width of --like: a vote weighs exp((cosine - 1) / width), and is left out under 0.01.",
    ),
]
_LIKE_WIDTH = 0.15


@takes(
    "store", "policy", "anchor_model", "cluster", "bootstraps", "since", "until", "seed", "providers", "prompts",
    store="",
)  # fmt: skip
def rate(
    settings: Settings,
    battles: BattlesArgument = None,
    as_json: JsonOption = False,
    table: TableOption = "ratings",
    slices: SlicesOption = None,
    agreement: AgreementOption = None,
    reference: ReferenceOption = None,
    named: NamedOption = False,
    like: LikeOption = None,
    like_width: LikeWidthOption = _LIKE_WIDTH,
) -> None:
    """Bradley-Terry ratings with 95 % intervals, and related tables; --since and --until are days of votes (UTC).

    With --store, the kept battles of the store are rated and the boards stored; with --table, --slice, --json and the
    like they are only printed.
    """
    if (battles is None) == (not settings.store):
        raise BadInput("give either a battle table or --store DIR")
    view = RatingView(table, tuple(slices or ()), reference, named)
    if like is not None:
        if view != RatingView(named=named) or agreement or not settings.store:
            raise BadInput("--like gives one board of --store DIR; leave the table, --table, --slice and the like out")
        _rate_like(settings, view, like, like_width, as_json)
        return
    if settings.store and view == RatingView() and not (as_json or agreement or settings.since or settings.until):
        run_stages(settings, ("flows.release", "rate"))
        return
    tables = rating_tables(battles, settings, view)
    if agreement is None:
        _print_table(tables, view, as_json)
    else:
        _print_agreement(tables, view, agreement, as_json)


def _print_table(tables: "RatingTables", view: RatingView, as_json: bool) -> None:
    rows = tables.rows(view.table)
    is_stable = view.table == "ratings" and not view.slices and as_json
    print_rows(view.table, _stable(rows) if is_stable else rows, as_json)


def _rate_like(settings: Settings, view: RatingView, like: str, width: float, as_json: bool) -> None:
    """Print the board of the votes of a store, weighted by how close their prompts are to a text or an item."""
    import numpy as np

    from tasks.leaderboard.like import aim_of, cosines, kernel_weights, near_board
    from tasks.providers import Providers

    versions, store = measured_versions(settings), existing(settings.store)
    aim = aim_of(store, versions, like, Providers(settings.providers)["text_embedding"].embed_texts)
    tables = rating_tables(None, settings, view)
    cosine = cosines(store, versions, tables.rated, aim)
    weight = kernel_weights(cosine, width)
    rows = near_board(tables.rated, weight, tables.method, {row.model: row.rating for row in tables.overall})
    counted, nearest = int((weight > 0).sum()), float(np.nanmax(cosine.to_numpy()))
    note(f"note: {counted:,} of {len(weight):,} votes count; the nearest prompt has a cosine of {nearest:.2f}")
    if lacking := cosine.null_count():
        note(f"note: {lacking:,} votes have no vector of {aim.signal}; left out")
    print_rows("like", rows, as_json)


def _print_agreement(tables: "RatingTables", view: RatingView, other_board: Path, as_json: bool) -> None:
    from tasks.leaderboard.agreement import agreement
    from tasks.leaderboard.battle_files import read_board

    table, slices = view.table, tables.slices
    if table not in ("ratings", "style_control") or len(slices) > 1 or "all" in slices:
        raise BadInput("--agreement compares one board: give --table ratings or style_control, and at most one --slice")
    board = [row for row in tables.rows(table) if isinstance(row, Rating)]
    name = slices[0] if slices else "overall" if table == "ratings" else table
    print_rows("agreement", [agreement(board, read_board(other_board, name))], as_json)


def _stable(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The stable columns of a board; its flags, for which they have none, are printed on stderr."""
    for flag in ("only_wins", "only_losses", "unbounded", "separate_group"):
        models = [one_line(row.model) for row in rows if isinstance(row, Rating) and flag in row.flags]
        if models:
            note(f"note: {flag}: {', '.join(models[:10])}{' …' if len(models) > 10 else ''}")
    return [row.model_dump(mode="json", include=_COLUMNS) for row in rows]
