"""The prompts that are reserved for the hidden split: by a hash of what was asked, for some months.

Nobody's earlier choice is needed to say what is reserved: it depends on the prompt, the month it was first asked in and
the month it is now. So nights and a backfill reserve the same, and nothing that is hidden was in an earlier release.
"""

import hashlib
from datetime import date

import polars as pl

from schemas.settings import BenchSettings


def month_number(day: date) -> int:
    """Months since year 0."""
    return day.year * 12 + day.month - 1


def month_name(number: int) -> str:
    """YYYY-MM."""
    return f"{number // 12:04d}-{number % 12 + 1:02d}"


def epoch_of(bench: BenchSettings, last_day: date) -> int:
    """The month of the hidden split: as set, or that of the last day of the data."""
    return month_number(date.fromisoformat(f"{bench.hidden_epoch}-01") if bench.hidden_epoch else last_day)


def reserved(conversations: pl.DataFrame, bench: BenchSettings, epoch: int) -> pl.DataFrame:
    """document_id and first_month (a number) of every prompt that is reserved in `epoch`.

    `conversations` are all there are, kept or not, as they were taken in: what a policy drops or redacts, which may
    change, moves nothing in or out.
    """
    if bench.hidden_size == 0:
        return pl.DataFrame(schema={"document_id": pl.String, "first_month": pl.Int64})
    first = conversations.group_by("document_id").agg(pl.col("day").min())
    month = pl.col("day").dt.year().cast(pl.Int64) * 12 + pl.col("day").dt.month() - 1
    recent = first.select("document_id", first_month=month).filter(pl.col("first_month") > epoch - bench.hidden_months)
    return recent.filter(may_be_reserved(bench)).sort("document_id")


def may_be_reserved(bench: BenchSettings) -> pl.Expr:
    """Whether a row's `document_id` is reserved in some months."""
    return pl.col("document_id").map_elements(lambda d: _lot(d) < bench.hidden_fraction, return_dtype=pl.Boolean)


def _lot(document: str) -> float:
    """0 to 1. No seed: another seed of a run must not release what was reserved."""
    return int.from_bytes(hashlib.blake2b(f"hidden/{document}".encode(), digest_size=6).digest()) / 2**48
