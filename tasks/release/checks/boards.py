"""Boards of a release, computed again from its votes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
from polars.testing import assert_frame_equal
from pydantic import ValidationError

from schemas.errors import BadInput
from schemas.items.suspects import VoteCheck
from schemas.policy import Policy
from schemas.rating import Fragility, Rating, RatingMethod
from tasks.leaderboard.battle_files import read_battles
from tasks.leaderboard.fragility import lead_after
from tasks.leaderboard.rating_tables import ALL_SLICES, FRAGILITY, VOTE_CHECKS, WITHOUT_SUSPECTS, RatingTables
from tasks.release.registered import OpenRelease
from tasks.storage.parquet import read_parquet_groups
from tasks.storage.tables import frame_of

RATING_DIFFERENCE_MAX = 1e-4
"""Machines add up in different order; no board prints more than two digits."""
_NAMED_MAX = 3
SUSPECTS_SINCE = 7
"""Releases of an earlier layout have no board without suspects, and no checks of votes."""


def unlike_votes(release: OpenRelease, boards: Mapping[str, pl.Expr]) -> Iterator[str]:
    """A problem for each board whose rows are not what the votes of `battle` give, with the settings of the manifest.

    `boards`: name of a file -> the slices that it has.
    """
    try:
        tables = released_tables(release)
        rated = frame_of(Rating, [*tables.rows("ratings"), *tables.styled[0]])
    except (BadInput, ValidationError) as error:
        yield f"leaderboard: the votes of battle cannot be rated as the manifest says ({str(error).splitlines()[0]})"
        return
    if release.manifest.layout < SUSPECTS_SINCE:
        rated = rated.filter(pl.col("slice") != WITHOUT_SUSPECTS)
    for name, chosen in boards.items():
        path = f"leaderboard/{name}.parquet"
        told = _slices(release.folder / path)
        right = {str(key): rows for (key,), rows in rated.filter(chosen).partition_by("slice", as_dict=True).items()}
        wrong = sorted(n for n in told.keys() | right.keys() if not same_rows(told.get(n), right.get(n)))
        if wrong:
            more = f" and {len(wrong) - _NAMED_MAX:,} more" if len(wrong) > _NAMED_MAX else ""
            yield f"{path}: not what the votes of battle give: {', '.join(map(repr, wrong[:_NAMED_MAX]))}{more}"


def released_tables(release: OpenRelease) -> RatingTables:
    """The rating tables of the votes of `battle`, for all slices, with the settings of the manifest.

    Raises BadInput and ValidationError where they cannot be rated so.
    """
    settings = release.manifest.settings
    return RatingTables(
        read_battles(release.folder / "battle", prompts=True),
        RatingMethod(**{name: settings[name] for name in RatingMethod.model_fields if name in settings}),
        (ALL_SLICES,),
        exclude_outliers=bool(settings.get("exclude_outlier_judges")),
        rules=Policy.model_validate(release.manifest.policy).votes,
    )


def recounted(release: OpenRelease) -> pl.DataFrame:
    """Rows of `VoteCheck` of the votes of `battle`. Raises as `released_tables` does."""
    return frame_of(VoteCheck, replace(released_tables(release), slices=()).rows(VOTE_CHECKS))


def _slices(board: Path) -> dict[str, pl.DataFrame]:
    rows = pl.concat(read_parquet_groups(board)) if board.is_file() else frame_of(Rating, [])
    return {str(key): of_slice for (key,), of_slice in rows.partition_by("slice", as_dict=True).items()}


def unlike_fragility(release: OpenRelease, told: pl.DataFrame) -> Iterator[str]:
    """Problems of `told`, rows of fragility: other numbers than the votes of `battle` give, or votes that prove none.

    Votes may differ, as equal ones do; then the board is rated without them.
    """
    try:
        tables = released_tables(release)
        right = frame_of(Fragility, tables.rows(FRAGILITY))
    except (BadInput, ValidationError) as error:
        yield f"the votes of battle cannot be rated as the manifest says ({str(error).splitlines()[0]})"
        return
    numbers, keys = pl.all().exclude("needed_ids"), ("slice", "contest", "place", "change")
    if not same_rows(told.select(numbers), right.select(numbers), keys):
        yield "not what the votes of battle give"
        return
    others = told.join(right, on=[*keys, "needed_ids"], how="anti", nulls_equal=True)
    for row in (Fragility(**each) for each in others.iter_rows(named=True)):
        short = row.unit == "vote" and len(row.needed_ids) != row.needed
        if short or lead_after(tables.votes_of(row.slice), row, tables.method) >= 0:
            yield f"its votes do not put {row.rival!r} before {row.model!r} in {row.slice!r}"


def same_rows(told: pl.DataFrame | None, right: pl.DataFrame | None, keys: Sequence[str] = ("model",)) -> bool:
    """Whether two tables hold the same rows, numbers within `RATING_DIFFERENCE_MAX`; False where one is missing."""
    if told is None or right is None:
        return False
    try:
        assert_frame_equal(told.sort(keys), right.sort(keys), check_exact=False, abs_tol=RATING_DIFFERENCE_MAX)
    except AssertionError:
        return False
    return True
