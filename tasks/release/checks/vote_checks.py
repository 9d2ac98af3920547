"""Checks of the votes of a release: counts that name nobody, written from the store, computed again from `battle`."""

from collections.abc import Iterator

from polars.testing import assert_frame_equal
from pydantic import ValidationError

from schemas.errors import BadInput
from tasks.release.declared import READ_ERRORS
from tasks.release.registered import (
    VOTE_CHECKS,
    OpenRelease,
    ReleasePart,
    Stated,
    Unsealed,
    board_csv,
    path_in_release,
    write_table,
)
from tasks.storage.parquet import read_parquet_groups


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
