"""A time is the same instant in every spelling, and what is none says why."""

import datetime
import random
from decimal import Decimal
from email.utils import format_datetime
from zoneinfo import ZoneInfo

import pytest

from tasks.runtime.times import read_time


def spellings(at: datetime.datetime) -> list:
    """A time of whole seconds as tools write it."""
    seconds = int(at.timestamp())
    there = at.astimezone(ZoneInfo("Asia/Kathmandu"))
    units = [seconds, seconds * 10**3, seconds * 10**6, seconds * 10**9]
    return [
        *units, *map(str, units), *map(float, units), f" {seconds}.0 ", f"{seconds}.000000", Decimal(seconds),
        at, at.replace(tzinfo=None), there, at.isoformat(), there.isoformat(), at.isoformat().replace("+00:00", "Z"),
        f"{at:%Y-%m-%dt%H:%M:%S}z", f"{at:%Y-%m-%d %H:%M:%S}", f"{at:%Y-%m-%d %H:%M:%S} UTC",
        f"{at:%Y-%m-%d %H:%M:%S.000000} utc", f"{at:%Y-%m-%d %H:%M:%S} GMT", f"{at:%Y-%m-%d %H:%M:%S} +0000 UTC",
        f"{there:%Y-%m-%d %H:%M:%S %z}", f"{at:%Y-%m-%dT%H:%M:%S}.000000000Z", f"{at:%Y%m%dT%H%M%SZ}",
        format_datetime(at, usegmt=True), format_datetime(at), format_datetime(there), f"{at:%d %b %Y %H:%M:%S} UT",
        {"$date": at.isoformat()}, {"$date": seconds * 1000}, {"$date": {"$numberLong": str(seconds * 1000)}},
        {"$numberDouble": f"{seconds}.0"},
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
def test_a_time_is_the_same_in_every_spelling(seed):
    seconds = random.Random(seed).randrange(1_100_000_000, 4_102_444_800)
    at = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    assert {read_time(spelled).microseconds for spelled in spellings(at)} == {seconds * 1_000_000}


EXACT = [
    (1718000000.123456, 123456), (1718000000123, 123000), (1718000000123456, 123456), (1718000000123456789, 123456),
    ("1718000000.5", 500000), ("1718000000123.25", 123250), ("2024-06-10T06:13:20.123456789Z", 123456),
    ("2024-06-10 06:13:20,123", 123000), ("1.718e9", 0),
]  # fmt: skip


@pytest.mark.parametrize(("spelled", "rest"), EXACT)
def test_parts_of_a_second_stay(spelled, rest):
    assert read_time(spelled).microseconds == 1718000000_000000 + rest


def test_a_day_begins_at_midnight_utc_and_early_seconds_stay_seconds():
    midnight = 1717977600_000000
    assert {read_time(day).microseconds for day in ("20240610", "2024-06-10", datetime.date(2024, 6, 10))} == {midnight}
    assert [read_time(early).microseconds for early in (0, "5", 20240610)] == [0, 5_000_000, 20240610_000000]
    assert read_time(1718000000123).form == "milliseconds since 1970"


NO_TIMES = [
    -1, 10**11, 4_102_444_800, 20240610120000, 5 * 10**18, 10**400, float("nan"), float("inf"), Decimal("NaN"), True,
    None, [], {}, {"$date": None}, {"$date": {"a": 1}}, {"seconds": 1}, b"1718000000", datetime.time(),
    datetime.timedelta(1), "", "yesterday", "NaN", "1e99", "9" * 5000, "6/10/2024 12:00 PM",
    "Mon Jun 10 2024 12:00:00 GMT+0200 (CEST)",
    "2024-06-10 12:00:00 CEST", "2024-06-10 12:00:00 UTC+2", "Mon, 99 Jun 2024 12:00:00 GMT",
    "Mon, 10 Jun 2024 12:00:00 -9999", "10 Jun 2024 12:00:00", "2024-06-10T24:00:01Z", "0x10", "１７１８００００００",
]  # fmt: skip


@pytest.mark.parametrize("value", NO_TIMES, ids=lambda value: repr(value)[:40])
def test_what_is_no_time_says_what_is_and_quotes_nothing(value):
    with pytest.raises(ValueError, match=r"seconds.*since 1970|number of seconds") as error:
        read_time(value)
    assert "\n" not in str(error.value) and "2024" not in str(error.value)
