"""`curate rate`: rating tables from any battle table, or the rating stage of a store."""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.options import JsonOption, existing, measured_versions, takes
from flows.commands.pipeline import run_stages
from flows.commands.tables import note, print_rows
from schemas.errors import BadInput, known_values
from schemas.policy import ModelFacts, Policy
from schemas.rating import Rating
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
) -> None:
    """Bradley-Terry ratings with 95 % intervals, and related tables; --since and --until are days of votes (UTC).

    With --store, the kept battles of the store are rated and the boards stored; with --table, --slice and the like they
    are only printed.
    """
    if (battles is None) == (not settings.store):
        raise BadInput("give either a battle table or --store DIR")
    view = _View(table, tuple(slices or ()), reference, agreement, as_json, named)
    if settings.store and view == _View(as_json=as_json) and not (settings.since or settings.until):
        run_stages(settings, ("flows.release", "rate"))
    else:
        from tasks.release.fetched import fetched, is_remote

        remote = battles is not None and is_remote(battles)
        with fetched(battles or "", "battle") if remote else nullcontext(battles) as place:
            _rate_table(place, settings, view)


@dataclass(frozen=True)
class _View:
    """Table to print: rows of `table`, or their agreement with a board."""

    table: str = "ratings"
    slices: tuple[str, ...] = ()
    reference: str | None = None
    agreement: Path | None = None
    as_json: bool = False
    named: bool = False


def _battles(battles: str | Path | None, settings: Settings, view: _View, policy: Policy) -> "pl.DataFrame":
    """The battles of a file, folder or release, or without one the kept battles of the store."""
    if battles is not None:
        from tasks.leaderboard.battle_files import read_battles, with_prompts

        prompts = view.table in ("suspects", "vote_checks") or bool(view.slices) or policy.votes.exclude_suspects
        table = Path(battles)
        if not (table / "manifest.json").is_file():
            return read_battles(table, view.named, prompts)
        return with_prompts(read_battles(table / "battle", view.named, prompts), table)
    from tasks.leaderboard.steps import rated_battles

    return rated_battles(existing(settings.store), measured_versions(settings), view.named)


def _policy(battles: str | Path | None, settings: Settings) -> Policy:
    """The policy that says which votes count: --policy if it is given, else the one of a release or store; or none."""
    from tasks.policy.policy_file import load_policy
    from tasks.storage.queries.released import decided_policy

    if "policy" in settings.model_fields_set:
        return load_policy(settings.policy)
    none = Policy(name="none", rules=[])
    if battles is None:
        return decided_policy(existing(settings.store)) or none
    manifest = Path(battles) / "manifest.json"
    shown = json.loads(manifest.read_bytes())["policy"] if manifest.is_file() else {}
    told = {key: shown[key] for key in ("votes", "models") if key in shown}
    return Policy.model_validate({**none.model_dump(), **told})


def _rate_table(battles: str | Path | None, settings: Settings, view: _View) -> None:
    from tasks.leaderboard.rating_tables import FAIRNESS, FRAGILITY, PLAN, TABLES, RatingTables, method_of, within

    if view.table not in TABLES:
        raise BadInput(f"--table {known_values(view.table, TABLES)}")
    policy = _policy(battles, settings)
    chosen = within(_battles(battles, settings, view, policy), settings.since, settings.until)
    outliers = settings.exclude_outlier_judges
    tables = RatingTables(
        chosen, method_of(settings), view.slices, view.reference, outliers, policy.votes, facts=policy.models
    )
    if tables.rated.is_empty() and view.table not in (FRAGILITY, PLAN):
        raise BadInput(f"{str(battles or settings.store)!r} holds no battle between two different models")
    if view.table in FAIRNESS:
        _note_unknown(policy.models, {*tables.rated["model_a"], *tables.rated["model_b"]})
    if tables.same_model:
        note(f"note: {tables.same_model:,} battles of a model with itself are left out")
    if view.named and "named" in chosen.columns:
        note(f"note: {chosen['named'].sum():,} votes are on models whose names were shown")
    for told in tables.lacking(view.table):
        note(f"note: {told}")
    of_style = "style" in view.table or view.table == "rank_changes"
    if of_style and (left_out := tables.rated.height - tables.measured.height):
        note(f"note: {left_out:,} battles lack a count that style control needs; left out")
    if view.agreement is None:
        rows, is_stable = tables.rows(view.table), view.table == "ratings" and not view.slices and view.as_json
        print_rows(view.table, _stable(rows) if is_stable else rows, view.as_json)
    else:
        _print_agreement(tables, view)


def _note_unknown(facts: Mapping[str, ModelFacts], models: set[str]) -> None:
    unknown = sorted(facts.keys() - models)
    if unknown:
        near = {name: get_close_matches(name, models, n=1) for name in unknown}
        told = (
            f"{one_line(name)!r}" + (f" (near {one_line(found[0])!r})" if found else "") for name, found in near.items()
        )
        note(f"note: the policy has facts about models without votes: {', '.join(told)}")


def _print_agreement(tables: "RatingTables", view: _View) -> None:
    from tasks.leaderboard.agreement import agreement
    from tasks.leaderboard.battle_files import read_board

    table, slices = view.table, tables.slices
    if view.agreement is None or table not in ("ratings", "style_control") or len(slices) > 1 or "all" in slices:
        raise BadInput("--agreement compares one board: give --table ratings or style_control, and at most one --slice")
    board = [row for row in tables.rows(table) if isinstance(row, Rating)]
    name = slices[0] if slices else "overall" if table == "ratings" else table
    print_rows("agreement", [agreement(board, read_board(view.agreement, name))], view.as_json)


def _stable(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The stable columns of a board; its flags, for which they have none, are printed on stderr."""
    for flag in ("only_wins", "only_losses", "unbounded", "separate_group"):
        models = [one_line(row.model) for row in rows if isinstance(row, Rating) and flag in row.flags]
        if models:
            note(f"note: {flag}: {', '.join(models[:10])}{' …' if len(models) > 10 else ''}")
    return [row.model_dump(mode="json", include=_COLUMNS) for row in rows]
