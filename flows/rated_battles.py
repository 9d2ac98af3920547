"""Rating tables of a battle table, a release or a store, as `curate rate` and `arena_curation.rate` give them.

In: the place of the battles, settings, and which table is wanted. Out: `RatingTables`; what was left out, and why, is
noted on stderr.
"""

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from flows.commands.options import existing, measured_versions
from flows.commands.tables import note
from schemas.errors import BadInput, known_values
from schemas.policy import ModelFacts, Policy
from schemas.settings import Settings
from tasks.runtime.untrusted import one_line

if TYPE_CHECKING:
    import polars as pl

    from tasks.leaderboard.rating_tables import RatingTables

    Battles = str | Path | pl.DataFrame | None


@dataclass(frozen=True)
class RatingView:
    """The table that is wanted."""

    table: str = "ratings"
    """One of `RATING_TABLES` in `tasks.leaderboard.rating_tables`."""
    slices: tuple[str, ...] = ()
    """Names of slices such as `language:English`, or `all`; by default all votes."""
    reference: str | None = None
    """Model that win rates are computed against."""
    named: bool = False
    """Whether votes on models whose names were shown are rated, too."""


def rating_tables(battles: "Battles", settings: Settings, view: RatingView) -> "RatingTables":
    """The tables of the battles at a place (a file, a folder of Parquet, a release) or in a frame, or of the store.

    Raises BadInput for an unknown table, for what is no battle table, and for one without a battle between two models.
    """
    from tasks.leaderboard.rating_tables import (
        FAIRNESS,
        FRAGILITY_TABLE,
        PLAN,
        RATING_TABLES,
        RatingTables,
        method_of,
        within,
    )
    from tasks.release.fetched import fetched, is_remote

    if view.table not in RATING_TABLES:
        raise BadInput(f"--table {known_values(view.table, RATING_TABLES)}")
    is_far = isinstance(battles, str) and is_remote(battles)
    with fetched(str(battles), "battle") if is_far else nullcontext(battles) as place:
        policy = _policy(place, settings)
        chosen = within(_battles(place, settings, view, policy), settings.since, settings.until)
    outliers = settings.exclude_outlier_judges
    tables = RatingTables(
        chosen, method_of(settings), view.slices, view.reference, outliers, policy.votes, facts=policy.models
    )
    if tables.rated.is_empty() and view.table not in (FRAGILITY_TABLE, PLAN):
        rated = battles if isinstance(battles, str | Path) else settings.store or "the frame"
        raise BadInput(f"{str(rated)!r} holds no battle between two different models")
    if view.table in FAIRNESS:
        _note_unknown(policy.models, {*tables.rated["model_a"], *tables.rated["model_b"]})
    if tables.same_model:
        note(f"note: {tables.same_model:,} battles of a model with itself are left out")
    if view.named and "named" in chosen.columns:
        note(f"note: {chosen['named'].sum():,} votes are on models whose names were shown")
    for line in tables.lacking(view.table):
        note(f"note: {line}")
    of_style = "style" in view.table or view.table == "rank_changes"
    if of_style and (unmeasured := tables.rated.height - tables.measured.height):
        note(f"note: {unmeasured:,} battles lack a count that style control needs; left out")
    return tables


def _battles(battles: "Battles", settings: Settings, view: RatingView, policy: Policy) -> "pl.DataFrame":
    """The battles of a file, folder, release or frame, or without one the kept battles of the store."""
    if battles is None:
        from tasks.leaderboard.steps import rated_battles

        return rated_battles(existing(settings.store), measured_versions(settings), view.named)
    from tasks.leaderboard.battle_files import battles_in_frame, read_battles, with_prompts

    prompts = view.table in ("suspects", "vote_checks") or bool(view.slices) or policy.votes.exclude_suspects
    if not isinstance(battles, str | Path):
        return battles_in_frame(battles, view.named, prompts)
    table = Path(battles)
    if not (table / "manifest.json").is_file():
        return read_battles(table, view.named, prompts)
    return with_prompts(read_battles(table / "battle", view.named, prompts), table)


def _policy(battles: "Battles", settings: Settings) -> Policy:
    """The policy that says which votes count: --policy if it is given, else the one of a release or store; or none."""
    from tasks.policy.policy_file import load_policy
    from tasks.storage.queries.released import decided_policy

    if "policy" in settings.model_fields_set:
        return load_policy(settings.policy)
    none = Policy(name="none", rules=[])
    if battles is None:
        return decided_policy(existing(settings.store)) or none
    manifest = Path(battles) / "manifest.json" if isinstance(battles, str | Path) else None
    released = json.loads(manifest.read_bytes())["policy"] if manifest and manifest.is_file() else {}
    about_votes = {key: released[key] for key in ("votes", "models") if key in released}
    return Policy.model_validate({**none.model_dump(), **about_votes})


def _note_unknown(facts: Mapping[str, ModelFacts], models: set[str]) -> None:
    unknown = sorted(facts.keys() - models)
    if unknown:
        near = {name: get_close_matches(name, models, n=1) for name in unknown}
        names = (
            f"{one_line(name)!r}" + (f" (near {one_line(alike[0])!r})" if alike else "") for name, alike in near.items()
        )
        note(f"note: the policy has facts about models without votes: {', '.join(names)}")
