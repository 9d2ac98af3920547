"""Axes: a scale from values to points, round numbers or days to mark on it, and how these are written."""

import math
from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple

from tasks.report.drawing import Drawing

TICK, GAP = 3.5, 3.0
"""Length of a tick, and from it to its text; points."""
BELOW = 32.0
"""What a horizontal axis with its numbers and its unit takes below it."""
_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)
_DAY_STEPS, _MONTH_STEPS = (1, 2, 7, 14), (1, 2, 3, 6)
_DAYS_A_MONTH, _DAYS_A_YEAR = 30.4, 365.2


class Scale(NamedTuple):
    """Values low … high at start … end, in points."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where a value is."""
        return self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low)


def ticks(low: float, high: float, most: int, whole: bool = False) -> list[tuple[float, str]]:
    """Round numbers from low to high and their texts, at most `most` + 1; `whole` numbers only if wanted."""
    least = (high - low) / most
    magnitude = 10.0 ** math.floor(math.log10(least))
    step = next(magnitude * each for each in _ROUND if magnitude * each >= least * (1 - 1e-9))
    if whole and step != round(step):
        step = max(1.0, float(math.ceil(step)))
    decimals = next((n for n in range(12) if abs(step * 10**n - round(step * 10**n)) < 1e-6), 12)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(number * step, signed(number * step, decimals)) for number in range(first, last + 1)]


def signed(value: float, decimals: int) -> str:
    """A number with commas and a true minus sign."""
    return f"{value + 0.0:,.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def day_ticks(first: date, last: date, most: int) -> list[tuple[date, str]]:
    """Days, first days of months or of years from first to last, at most about `most`, and their texts.

    Of the year, only January says anything.
    """
    length = (last - first).days + 1
    for days in _DAY_STEPS:
        if length / days <= most:
            found = (first + timedelta(number) for number in range(0, length, days))
            return [(day, f"{day:%b} {day.day}") for day in found]
    for months in _MONTH_STEPS:
        if length / _DAYS_A_MONTH / months <= most:
            return [(day, f"{day:%Y}" if day.month == 1 else f"{day:%b}") for day in _months(first, last, months)]
    years = math.ceil(length / _DAYS_A_YEAR / most)
    return [(day, f"{day:%Y}") for day in _months(first, last, 12) if day.year % years == 0]


def _months(first: date, last: date, step: int) -> Iterator[date]:
    """First days of every `step`th month, counted from January."""
    for number in range(12 * first.year + first.month - 1, 12 * last.year + last.month):
        day = date(number // 12, number % 12 + 1, 1)
        if number % 12 % step == 0 and first <= day <= last:
            yield day


def horizontal(drawing: Drawing, y: float, scale: Scale, marks: list[tuple[float, str]], unit: str = "") -> None:
    """An axis below what is drawn, with its marks and, below them, what is counted."""
    drawing.line([(scale.start, y), (scale.end, y)])
    for value, text in marks:
        drawing.line([(scale.at(value), y), (scale.at(value), y + TICK)])
        if text:
            drawing.text(scale.at(value), y + TICK + GAP + 4, text, "middle")
    if unit:
        drawing.text((scale.start + scale.end) / 2, y + TICK + GAP + 17, unit, "middle")


def vertical(drawing: Drawing, x: float, scale: Scale, marks: list[tuple[float, str]]) -> None:
    """An axis left of what is drawn, with its marks."""
    drawing.line([(x, scale.start), (x, scale.end)])
    for value, text in marks:
        drawing.line([(x - TICK, scale.at(value)), (x, scale.at(value))])
        drawing.text(x - TICK - GAP, scale.at(value), text, "end")
