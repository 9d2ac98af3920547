"""The days the demo arena was open, and what its logs looked like then."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import NamedTuple

from tasks.demo.words import load

OPENS_SECONDS, OPEN_SECONDS = 6 * 3600, 17 * 3600
"""Traffic starts at 06:00 and begins nothing new after 23:00, so that only planned conversations cross midnight."""
MIDNIGHT_SECONDS = 86_400


class Era(StrEnum):
    """Shapes of FastChat's vision logs."""

    TEXT = "text"
    """Until 2024-05-09: messages are text, picture names stand beside them on chat lines only; `.jpg` files."""
    JPG = "jpg"
    """Until 2024-06-18: picture names in the messages; `.jpg` files, encoded anew."""
    PNG = "png"
    """Since then: picture names in the messages; `.png` files with exactly the pixels that were hashed."""


class LogDay(NamedTuple):
    """One day of traffic."""

    date: date
    era: Era
    share: float
    """Weight among the days."""
    has_morrow: bool
    """Whether the next day has traffic too."""

    @property
    def start(self) -> float:
        """Midnight, in seconds since the epoch. The server's clock runs on UTC."""
        return datetime.combine(self.date, time(), UTC).timestamp()


class Moment(NamedTuple):
    """When something begins."""

    day: LogDay
    at: float
    """Seconds since the epoch."""

    @property
    def era(self) -> Era:
        """The shape of the day's logs."""
        return self.day.era


def log_days() -> list[LogDay]:
    """Every day of traffic, in order."""
    return [
        LogDay(run["first"] + timedelta(days=index), Era(run["era"]), run["share"], index < run["days"] - 1)
        for run in load("days")
        for index in range(run["days"])
    ]


def split(total: int, days: Sequence[LogDay]) -> list[int]:
    """`total` dealt out to the days by their weights; the parts add up."""
    whole = sum(day.share for day in days)
    ends = [round(total * sum(day.share for day in days[: index + 1]) / whole) for index in range(len(days))]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]
