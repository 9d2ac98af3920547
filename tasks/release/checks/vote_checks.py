"""Tables about the votes of a release, checked from `battle`: counts of odd votes, and how few change a board."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
from polars.testing import assert_frame_equal
from pydantic import ValidationError

from schemas.errors import BadInput
from schemas.rating import Fragility
from tasks.release.declared import READ_ERRORS, sound_groups
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
    path_in_release,
    read_released,
    write_table,
)
from tasks.runtime.untrusted import markdown_text
from tasks.storage.parquet import read_parquet_groups
from tasks.storage.queries.board_order import contests
from tasks.storage.tables import frame_of

_SHOWN_MAX = 15
"""Pairs of neighbours in the card."""


def _write(unsealed: Unsealed) -> Stated:
    write_table(unsealed.folder, VOTE_CHECKS, unsealed.store.read("vote_checks"))
    return Stated()


def _wrong(release: OpenRelease) -> Iterator[str]:
    """Problems of the table: it is missing, is not what the votes give, or differs from its CSV file."""
    from tasks.release.checks.boards import SUSPECTS_SINCE, recounted  # imported late: the explorer needs no scipy

    path = release.folder / path_in_release(VOTE_CHECKS)
    if not path.is_file() and release.manifest.layout < SUSPECTS_SINCE:
        return
    try:
        (told,) = read_parquet_groups(path)
        assert_frame_equal(told.sort("check"), recounted(release).sort("check"), check_exact=False)
        if path.with_suffix(".csv").read_text(encoding="utf-8") != board_csv(told):
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
    from tasks.release.checks.boards import unlike_fragility  # imported late: the explorer needs no scipy

    path = release.folder / path_in_release(FRAGILITY)
    if release.manifest.layout < RELEASED_TABLES[FRAGILITY].since_layout:
        return
    try:
        told = pl.concat([frame_of(Fragility, []), *(sound_groups(path) if path.is_file() else ())])
    except READ_ERRORS as error:
        yield f"{path_in_release(FRAGILITY)}: its pages cannot be read ({type(error).__name__})"
        return
    yield from (f"{path_in_release(FRAGILITY)}: {problem}" for problem in unlike_fragility(release, told))


def _fragility_section(release: Path, _: int) -> str:
    rows = read_released(release, FRAGILITY)
    overall = contests(rows.filter(slice="overall")) if rows is not None else pl.DataFrame()
    if rows is None or overall.is_empty():
        return ""
    lines = [_fragility_line(row) for row in overall.head(_SHOWN_MAX).iter_rows(named=True)]
    skipped = rows.filter(pl.col("flags").list.contains("few_battles")).height
    return f"""{TITLE}

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


TITLE = "## How few votes change the board"
FRAGILE = ReleasePart(
    (FRAGILITY,),
    _write_fragility,
    _wrong_fragility,
    section=CardSection(TITLE, "how few votes change the board", FRAGILITY, _fragility_section, 7),
)
"""The part of every release whose battles are rated."""
