"""Reserves prompts for the hidden split: by a hash of the prompt, for some months after it was first asked.

Whether a prompt is reserved depends only on the prompt, the month it was first asked in and the current month, not on
earlier runs. So nightly runs and a backfill reserve the same prompts, and no hidden prompt was in an earlier release.
"""

import hashlib
from datetime import date

import polars as pl

from schemas.benches.written import AUTHOR
from schemas.settings import BenchSettings
from tasks.storage.parquet import compact
from tasks.storage.tables import Store


def month_number(day: date) -> int:
    """Months since year 0."""
    return day.year * 12 + day.month - 1


def month_name(number: int) -> str:
    """YYYY-MM."""
    return f"{number // 12:04d}-{number % 12 + 1:02d}"


def epoch_of(bench: BenchSettings, last_day: date) -> int:
    """The month of the hidden split: the setting `hidden_epoch`, or the month of the last day of the data."""
    return month_number(date.fromisoformat(f"{bench.hidden_epoch}-01") if bench.hidden_epoch else last_day)


def asked_by_users(store: Store, bench: BenchSettings) -> pl.DataFrame:
    """document_id, day and model of conversations with users whose prompts are reserved at some time."""
    names, by_users = ["document_id", "day", "model"], pl.col("model") != AUTHOR
    slices = store.read_slices("conversations", names) if bench.hidden_size else ()
    chosen = (compact(rows.filter(by_users).filter(may_be_reserved(bench))) for rows in slices)
    return pl.concat([store.empty("conversations", names), *chosen])


def reserved(conversations: pl.DataFrame, bench: BenchSettings, epoch: int) -> pl.DataFrame:
    """document_id and first_month (a month number) of every prompt that is reserved in `epoch`.

    `conversations` are those of `asked_by_users`: before redaction, kept or not, so that a change of policy does not
    change what is reserved.
    """
    if bench.hidden_size == 0:
        return pl.DataFrame(schema={"document_id": pl.String, "first_month": pl.Int64})
    first = conversations.group_by("document_id").agg(pl.col("day").min())
    month = pl.col("day").dt.year().cast(pl.Int64) * 12 + pl.col("day").dt.month() - 1
    recent = first.select("document_id", first_month=month).filter(pl.col("first_month") > epoch - bench.hidden_months)
    return recent.sort("document_id")


def may_be_reserved(bench: BenchSettings) -> pl.Expr:
    """Whether a row's `document_id` is among those reserved for some months.

    A hash without a seed decides, so that running with another seed does not release reserved prompts.
    """

    def chosen(document: str) -> bool:
        digest = hashlib.blake2b(f"hidden/{document}".encode(), digest_size=6).digest()
        return int.from_bytes(digest) / 2**48 < bench.hidden_fraction

    return pl.col("document_id").map_elements(chosen, return_dtype=pl.Boolean)
