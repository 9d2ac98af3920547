"""Boards of a release, and the tables about its votes, computed again from `battle`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from polars.testing import assert_frame_equal
from pydantic import ValidationError

from schemas.benches.certificate import VoteCheck
from schemas.errors import BadInput, why_refused
from schemas.policy import Policy
from schemas.rating import Fragility, Rating, RatingMethod
from schemas.tables import TABLES
from tasks.release.contents import READ_ERRORS, sound_groups
from tasks.release.registered import (
    FRAGILITY,
    RELEASED_TABLES,
    VOTE_CHECKS,
    CardSection,
    OpenRelease,
    ReleasePart,
    Stated,
    Unsealed,
    board_csv,
    is_benchmark_alone,
    path_in_release,
    read_released,
    write_table,
)
from tasks.runtime.untrusted import markdown_text
from tasks.storage.parquet import read_parquet_groups
from tasks.storage.queries.bench import APART, contests
from tasks.storage.tables import frame_of

if TYPE_CHECKING:
    from tasks.leaderboard.rating_tables import RatingTables, StoredTables

RATING_DIFFERENCE_MAX = 1e-4
"""Machines add up in different order; no board prints more than two digits."""
_NAMED_MAX = 3
RANKS_SINCE = 9
"""Releases of an earlier layout have ranks from single intervals about the mean of all models."""
STYLE_SINCE = 10
"""Boards under style control of an earlier layout take a vote without a count of named entities as average in it."""
RULES_FLAGGED_SINCE = 12
"""Releases of an earlier layout flag rules on no board under style control, and elsewhere by other tests."""
_RULES = ("repeats_count_once", "days_limited", "suspects_excluded")
"""Flags of rules about votes."""
_REPORTED = (
    "exposure",
    "length_differences",
    "model_lives",
    "months",
    "rank_changes",
    "style_coefficients",
    "vote_shares",
    "vote_statistics",
)
"""Rating tables that only the report of a release shows."""
SUSPECTS_SINCE = 7
"""Releases of an earlier layout have no board without suspects, and no checks of votes."""


def unlike_votes(release: OpenRelease, boards: Mapping[str, pl.Expr]) -> Iterator[str]:
    """A problem for each board whose rows are not what the votes of `battle` give, with the settings of the manifest.

    `boards`: name of a file -> the slices that it has.
    """
    from tasks.leaderboard import rating_tables  # imported late, here and below: the explorer needs no scipy

    try:
        tables = released_tables(release)
        rated = frame_of(Rating, tables.rows("ratings") if tables else [])
    except (BadInput, ValidationError) as error:
        yield f"leaderboard: the votes of battle cannot be rated as the manifest says ({why_refused(error)})"
        return
    if release.manifest.layout < SUSPECTS_SINCE:
        rated = rated.filter(pl.col("slice") != rating_tables.WITHOUT_SUSPECTS)
    comparable = _shown_by_any_layout if release.manifest.layout < RANKS_SINCE else _flagged_by_any_layout(release)
    for name, chosen in boards.items():
        path = f"leaderboard/{name}.parquet"
        stated, right = _slices(comparable(_board(release.folder / path))), _slices(comparable(rated.filter(chosen)))
        wrong = sorted(n for n in stated.keys() | right.keys() if not same_rows(stated.get(n), right.get(n)))
        if wrong:
            more = f" and {len(wrong) - _NAMED_MAX:,} more" if len(wrong) > _NAMED_MAX else ""
            yield f"{path}: not what the votes of battle give: {', '.join(map(repr, wrong[:_NAMED_MAX]))}{more}"


@lru_cache(maxsize=1)
def released_tables(release: OpenRelease) -> "StoredTables | None":
    """The rating tables of the votes of `battle`, by the settings of the manifest; None without votes.

    Raises BadInput and ValidationError where they cannot be rated so.
    """
    if not release.manifest.counts["battle"]:
        return None
    manifest = release.manifest
    policy = Policy.model_validate(manifest.policy)
    return tables_of(release.folder, manifest.settings, policy, unknown_style_as_mean=manifest.layout < STYLE_SINCE)


def tables_of(
    folder: Path, settings: Mapping[str, Any], policy: Policy, *, unknown_style_as_mean: bool = False
) -> "StoredTables":
    """The rating tables of the votes of `battle` in a folder. `settings`: those of the manifest.

    `unknown_style_as_mean`: `RatingMethod.unknown_style_as_mean`.
    """
    from tasks.leaderboard.battle_files import read_battles, with_prompts
    from tasks.leaderboard.rating_tables import RatingTables, StoredTables

    every = with_prompts(read_battles(folder / "battle", named=True, prompts=True), folder)
    method = {name: settings[name] for name in RatingMethod.model_fields if name in settings}
    whole = RatingTables(
        every.filter(~pl.col("named")).drop("named"),
        RatingMethod(**(method | {"unknown_style_as_mean": unknown_style_as_mean})),
        reference=settings.get("anchor_model"),
        exclude_outliers=bool(settings.get("exclude_outlier_judges")),
        facts=policy.models,
        rules=policy.votes,
    )
    return StoredTables(whole, every)


def tables_of_votes(release: OpenRelease) -> dict[str, pl.DataFrame]:
    """The rating tables that the report is made from: boards from the files of the release, others computed again."""
    tables = released_tables(release)
    boards = [read_parquet_groups(path) for path in sorted((release.folder / "leaderboard").glob("*.parquet"))]
    again = {name: frame_of(TABLES[name].row, tables.rows(name) if tables else []) for name in _REPORTED}
    again["ratings"] = pl.concat([frame_of(Rating, []), *chain.from_iterable(boards)])
    for name, path in (("fragility", FRAGILITY), ("vote_checks", VOTE_CHECKS)):
        rows = read_released(release.folder, path)
        again[name] = frame_of(TABLES[name].row, []) if rows is None else rows
    return again


def recounted(release: OpenRelease) -> pl.DataFrame:
    """Rows of `VoteCheck` of the votes of `battle`. Raises as `released_tables` does."""
    tables = released_tables(release)
    return frame_of(VoteCheck, tables.rows("vote_checks") if tables else [])


def _board(path: Path) -> pl.DataFrame:
    return pl.concat(read_parquet_groups(path)) if path.is_file() else frame_of(Rating, [])


def _slices(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    return {str(key): of_slice for (key,), of_slice in rows.partition_by("slice", as_dict=True).items()}


def _shown_by_any_layout(rows: pl.DataFrame) -> pl.DataFrame:
    """Columns of a board that rest on no interval and no mean: votes, and points between models."""
    mean = pl.col("rating").mean().over("slice", pl.col("flags").list.contains(APART))
    return rows.select("slice", "model", "battles", rating=pl.col("rating") - mean)


def _flagged_by_any_layout(release: OpenRelease) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """A function that takes from `flags` of rows what the layout of the release flags in another way."""
    if release.manifest.layout >= RULES_FLAGGED_SINCE:
        return pl.DataFrame.clone
    others = pl.col("flags").list.eval(pl.element().filter(~pl.element().is_in(_RULES)))
    return lambda rows: rows.with_columns(others)


def unlike_fragility(release: OpenRelease, fragility: pl.DataFrame) -> Iterator[str]:
    """Problems of rows of `fragility`: other numbers than the votes of `battle` give, or votes that prove none.

    Votes may differ, as equal ones do; then the board is rated without them.
    """
    from tasks.leaderboard import rating_tables

    try:
        tables = released_tables(release)
        right = frame_of(Fragility, tables.rows(rating_tables.FRAGILITY_TABLE) if tables else [])
    except (BadInput, ValidationError) as error:
        yield f"the votes of battle cannot be rated as the manifest says ({why_refused(error)})"
        return
    numbers, keys = pl.all().exclude("needed_ids"), ("slice", "contest", "place", "change")
    comparable = _flagged_by_any_layout(release)
    if not same_rows(comparable(fragility.select(numbers)), comparable(right.select(numbers)), keys):
        yield "not what the votes of battle give"
        return
    others = fragility.join(right, on=[*keys, "needed_ids"], how="anti", nulls_equal=True)
    for row in (Fragility(**fields) for fields in others.iter_rows(named=True)):
        short = row.unit == "vote" and len(row.needed_ids) != row.needed
        rated = tables.by_slice if tables and not short else None
        if rated is None or _lead_after(rated, row) >= 0:
            yield f"its votes do not put {row.rival!r} before {row.model!r} in {row.slice!r}"


def _lead_after(tables: "RatingTables", row: Fragility) -> float:
    from tasks.leaderboard.fragility import lead_after

    return lead_after(tables.votes_of(row.slice), row, tables.method, sides_drawn=tables.sides_drawn)


def same_rows(stated: pl.DataFrame | None, right: pl.DataFrame | None, keys: Sequence[str] = ("model",)) -> bool:
    """Whether two tables hold the same rows, numbers within `RATING_DIFFERENCE_MAX`; False where one is missing."""
    if stated is None or right is None:
        return False
    try:
        assert_frame_equal(stated.sort(keys), right.sort(keys), check_exact=False, abs_tol=RATING_DIFFERENCE_MAX)
    except AssertionError:
        return False
    return True


_SHOWN_MAX = 15
"""Pairs of neighbours in the card."""


def _write(unsealed: Unsealed) -> Stated:
    if not is_benchmark_alone(unsealed.folder):
        write_table(unsealed.folder, VOTE_CHECKS, unsealed.store.read("vote_checks"))
    return Stated()


def _wrong(release: OpenRelease) -> Iterator[str]:
    """Problems of the table: it is missing, is not what the votes give, or differs from its CSV file."""
    path = release.folder / path_in_release(VOTE_CHECKS)
    is_old = release.manifest.layout < SUSPECTS_SINCE
    if not path.is_file() and (is_old or is_benchmark_alone(release.folder)):
        return
    try:
        (stated_rows,) = read_parquet_groups(path)
        assert_frame_equal(stated_rows.sort("check"), recounted(release).sort("check"), check_exact=False)
        if path.with_suffix(".csv").read_text(encoding="utf-8") != board_csv(stated_rows):
            yield f"{VOTE_CHECKS}.csv: not what {path.name} says"
    except (*READ_ERRORS, BadInput, ValidationError, AssertionError):
        yield f"{VOTE_CHECKS}.parquet: not what the votes of battle give"


CHECKED_VOTES = ReleasePart((VOTE_CHECKS,), _write, _wrong)
"""The part of every release that counts votes which look wrong."""


def _write_fragility(unsealed: Unsealed) -> Stated:
    rows = unsealed.store.read("fragility")
    if rows.height:
        write_table(unsealed.folder, FRAGILITY, rows)
    return Stated()


def _wrong_fragility(release: OpenRelease) -> Iterator[str]:
    """Problems of the table: it cannot be read, is not what the votes give, or names votes that change nothing."""
    path = release.folder / path_in_release(FRAGILITY)
    if release.manifest.layout < RELEASED_TABLES[FRAGILITY].since_layout:
        return
    try:
        stated_rows = pl.concat([frame_of(Fragility, []), *(sound_groups(path) if path.is_file() else ())])
    except READ_ERRORS as error:
        yield f"{path_in_release(FRAGILITY)}: its pages cannot be read ({type(error).__name__})"
        return
    yield from (f"{path_in_release(FRAGILITY)}: {problem}" for problem in unlike_fragility(release, stated_rows))


def _fragility_section(release: Path, _: int) -> str:
    rows = read_released(release, FRAGILITY)
    overall = contests(rows.filter(slice="overall")) if rows is not None else pl.DataFrame()
    if rows is None or overall.is_empty():
        return ""
    lines = [_fragility_line(row) for row in overall.head(_SHOWN_MAX).iter_rows(named=True)]
    skipped = rows.filter(pl.col("flags").list.contains("few_battles")).height
    return f"""{FRAGILITY_TITLE}

The fewest of {overall["of"][0]:,} votes found after whose removal or reversal the second model is ahead of the first,
proved by rating the remaining votes. Somebody cleverer may need fewer. `{FRAGILITY}` has
all neighbours, the other boards, and the ids of these votes.
Boards not searched, because they have under 100 votes: {skipped:,}.

| place | model | next | points apart | removed | reversed |
|--:|---|---|--:|--:|--:|
{chr(10).join(lines)}

"""


def _fragility_line(row: dict[str, Any]) -> str:
    place = "first" if row["contest"] == "first_place" else str(row["place"])
    changes = [
        "–" if row[name] is None else f"{row[name]:,} ({100 * row[f'{name}_fraction']:.2f} %)"
        for name in ("removed", "reversed")
    ]
    names = [markdown_text(row[name]) for name in ("model", "rival")]
    return f"| {' | '.join([place, *names, format(row['difference'], '.1f'), *changes])} |"


FRAGILITY_TITLE = "## How few votes change the board"
FRAGILE = ReleasePart(
    (FRAGILITY,),
    _write_fragility,
    _wrong_fragility,
    section=CardSection(FRAGILITY_TITLE, "how few votes change the board", FRAGILITY, _fragility_section, 7),
)
"""The part of every release whose battles are rated."""
