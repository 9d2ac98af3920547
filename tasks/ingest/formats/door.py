"""What a reader of a published dataset is."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tasks.ingest.formats.published import Record, Row
from tasks.ingest.log_line import Place


class Door(NamedTuple):
    """One shape of rows: how it is known, and how a row becomes a log record."""

    name: str
    """What `--format` calls it."""
    columns: frozenset[str]
    """Columns that must be there; of several doors that fit, the one with most columns is meant."""
    record: Callable[[Row, Place], Record]
    """The record of a row. May raise LineRejected, or whatever a row of another shape leads to."""
    pictures: Callable[[Row], Sequence[Row]]
    """{bytes, path} of the row's pictures, in order; bytes are absent while only lines are read."""
    picture_column: str | None
    """The column that holds them."""


def no_pictures(row: Row) -> Sequence[Row]:
    """Of a row without pictures."""
    return ()
