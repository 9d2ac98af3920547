"""Times as logs, datasets and battle tables write them: one function for all of them."""

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import polars as pl

from schemas.items.conversation import UNDATED_BEFORE, UNDATED_FROM

IS_DATED = ~pl.col("tstamp").is_between(UNDATED_FROM, UNDATED_BEFORE, closed="left")
"""Whether a row has a time of its own as `tstamp`."""
END_SECONDS = 4_102_444_800
"""2100-01-01. A number of seconds is smaller; a larger number is in milliseconds, microseconds or nanoseconds."""
_EARLIEST_SECONDS = 1_000_000_000
"""2001-09-09: from here to 2100 numbers in different units cannot be confused."""
_PARTS_A_SECOND = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_PLAIN_SECONDS = (100_000_000, END_SECONDS)
"""From 1973 to 2100. Eight digits may be a date."""
_UNITS = "seconds, milliseconds, microseconds or nanoseconds since 1970"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"(?!(?:19|20)\d{6}$)\d{1,20}(?:\.\d{0,20})?(?:[eE]\+?\d{1,2})?", re.ASCII)
"""A number; eight digits that begin as a year are a date."""
_UNIVERSAL = re.compile(r"\s*(?:\+0000\s+)?(?:UTC|GMT|Z)$", re.IGNORECASE)
_RFC_2822 = re.compile(
    r"(?:[A-Za-z]{3},\s*)?\d{1,2}\s[A-Za-z]{3}\s\d{2,4}\s\d{1,2}:\d\d(?::\d\d)?\s(?:[+-]\d{4}|UTC|UT|GMT|[ECMP][SD]T)"
)
_WRAPPED = ("$date", "$numberLong", "$numberInt", "$numberDouble", "$oid")


class ReadTime(NamedTuple):
    """A time, and as what it was read."""

    microseconds: int
    """Since 1970, UTC."""
    form: str
    """`seconds since 1970` or another unit, or `a date and time`."""


def unwrapped(value: Any) -> Any:
    """The value inside `{"$date": …}` and the like, as MongoDB exports it; any other value unchanged."""
    while isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _WRAPPED:
        (value,) = value.values()
    return value


def read_time(value: object) -> ReadTime:
    """A number of seconds, milliseconds, microseconds or nanoseconds since 1970, or a date and time, also as text.

    Text is a number, ISO 8601 or RFC 2822; without a zone it is UTC. Raises ValueError, which does not quote the value.
    """
    value = unwrapped(value)
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return _of_number(float(value) if isinstance(value, Decimal) else value)
    if isinstance(value, str):
        return _of_text(value.strip())
    if isinstance(value, date):
        return _of_date(value)
    raise ValueError(f"{type(value).__name__}, neither a number of seconds nor a date and time")


def _of_number(number: float) -> ReadTime:
    if 0 <= number < END_SECONDS:
        return ReadTime(round(number * 1_000_000), "seconds since 1970")
    for unit, parts in _PARTS_A_SECOND.items():
        if _EARLIEST_SECONDS * parts <= number < END_SECONDS * parts:
            exact = number * 1_000_000 // parts if isinstance(number, int) else round(number / parts * 1_000_000)
            return ReadTime(exact, f"{unit} since 1970")
    raise ValueError(f"a number that is no time before 2100 in {_UNITS}")


def _of_date(moment: date) -> ReadTime:
    at = moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return ReadTime((at - _EPOCH) // timedelta(microseconds=1), "a date and time")


def _of_text(text: str) -> ReadTime:
    if _NUMBER.fullmatch(text):
        return _of_number(int(text) if text.isdecimal() else float(text))
    try:
        of_mail = _RFC_2822.fullmatch(text)
        moment = parsedate_to_datetime(text) if of_mail else datetime.fromisoformat(_UNIVERSAL.sub("+00:00", text))
    except ValueError:
        raise ValueError(f"a text that is neither an ISO 8601 nor an RFC 2822 time, nor {_UNITS}") from None
    return _of_date(moment)


def read_times(column: pl.Series) -> tuple[pl.Series, str]:
    """(UTC times in microseconds, what is wrong with the first that cannot be read, or nothing).

    Times that cannot be read, and those before 1970 or after 2099, are null.
    """
    problems: list[str] = []
    if isinstance(column.dtype, (pl.Datetime, pl.Date)):
        zone = getattr(column.dtype, "time_zone", None)
        microseconds = (column.dt.convert_time_zone("UTC") if zone else column.cast(pl.Datetime("us"))).dt.epoch("us")
    else:
        # plain seconds, which most tables have, at once; all others one by one
        is_number = column.dtype.is_numeric() or column.dtype == pl.String
        nothing = pl.repeat(None, len(column), dtype=pl.Float64, eager=True)
        seconds = column.cast(pl.Float64, strict=False) if is_number else nothing
        plain = seconds.is_between(*_PLAIN_SECONDS, closed="left").fill_null(False)
        others = (~plain & column.is_not_null()).arg_true()
        read = [_microseconds(value, problems) for value in column.gather(others).to_list()]
        microseconds = (seconds.set(~plain, None) * 1e6).round().cast(pl.Int64).scatter(others, read)
    microseconds = microseconds.set(~microseconds.is_between(0, END_SECONDS * 1_000_000, closed="left"), None)
    unread = (microseconds.is_null() & column.is_not_null()).any()
    problem = (problems or ["not from 1970 to 2099"])[0] if unread else ""
    return microseconds.cast(pl.Datetime("us", "UTC")), problem


def _microseconds(value: object, problems: list[str]) -> int | None:
    try:
        return read_time(value).microseconds
    except ValueError as error:
        problems.append(f"such as {str(value)[:40]!r} ({error})")
        return None
