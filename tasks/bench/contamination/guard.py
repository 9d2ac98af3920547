"""Reserves prompts for the hidden split, and finds what the benchmark withholds from a release.

A prompt is reserved by its hash, for some months after it was first asked. That depends only on the prompt, the month
it was first asked in and the current month, not on earlier runs. So nightly runs and a backfill reserve the same
prompts, and no hidden prompt was in an earlier release.
"""

import hashlib
from datetime import date
from typing import NamedTuple

import polars as pl

from schemas.benches.written import AUTHOR
from schemas.settings import BenchSettings
from tasks.bench.contamination.alike import (
    ALIKE_OVERLAP,
    alike_in_store,
    asked_in_store,
    documents_until_vote,
    released_documents,
)
from tasks.storage.parquet import compact
from tasks.storage.queries.released import days
from tasks.storage.queries.signals import Versions
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


_ASKED_BY_USERS = """
    -- a row is one conversation with a user, as it was logged
    SELECT document_id, day, model FROM conversations WHERE model <> $author
"""


def asked_by_users(store: Store, bench: BenchSettings) -> pl.DataFrame:
    """document_id, day and model of conversations with users whose prompts are reserved at some time."""
    if bench.hidden_size == 0:
        return store.empty("conversations", ["document_id", "day", "model"])
    conversations = store.batches(_ASKED_BY_USERS, author=AUTHOR)
    return pl.concat(compact(rows.filter(may_be_reserved(bench))) for rows in conversations)


def reserved(conversations: pl.DataFrame, bench: BenchSettings, epoch: int) -> pl.DataFrame:
    """document_id and first_month (a month number) of every prompt that is reserved in `epoch`.

    `conversations` are those of `asked_by_users`: before redaction, kept or not, so that a change of policy does not
    change what is reserved.
    """
    if bench.hidden_size == 0:
        return pl.DataFrame(schema={"document_id": pl.String, "first_month": pl.Int64})
    first_days = conversations.group_by("document_id").agg(pl.col("day").min())
    month = pl.col("day").dt.year().cast(pl.Int64) * 12 + pl.col("day").dt.month() - 1
    recent = first_days.select("document_id", first_month=month).filter(
        pl.col("first_month") > epoch - bench.hidden_months
    )
    return recent.sort("document_id")


def may_be_reserved(bench: BenchSettings) -> pl.Expr:
    """Whether a row's `document_id` is among those reserved for some months.

    A hash without a seed decides, so that running with another seed does not release reserved prompts.
    """

    def chosen(document: str) -> bool:
        digest = hashlib.blake2b(f"hidden/{document}".encode(), digest_size=6).digest()
        return int.from_bytes(digest) / 2**48 < bench.hidden_fraction

    return pl.col("document_id").map_elements(chosen, return_dtype=pl.Boolean)


class Withheld(NamedTuple):
    """Ids of conversations that are kept, or sides of kept battles."""

    bench: pl.Series
    """On a prompt of the public split, or one alike: left out of chat and marked in battles."""
    hidden: pl.Series
    """On a prompt that is reserved for the hidden split, or alike to one drawn for it: left out of everything."""


def withheld_conversations(store: Store, versions: Versions, bench: BenchSettings, public: pl.Series) -> Withheld:
    """The conversations that are withheld, also those that are only sides of kept battles.

    `public`: conversations whose prompts a benchmark publishes. Of a conversation that went on after its vote, the
    messages before the vote count as a prompt of their own, because its battle shows no others.

    Prompts that arrived since the last `sample`, and that the next one will reserve, are not in the table `hidden` yet.
    They are withheld too, because a prompt that was released cannot be hidden later.
    """
    documents = released_documents(store)
    hidden = store.read("hidden", ["document_id", "drawn"])
    drawn_documents = hidden.filter("drawn")["document_id"].implode()
    reserved_documents = pl.concat([hidden["document_id"], _reserved_now(store, bench)]).implode()
    is_public = pl.col("conversation_id").is_in(public.implode())
    is_hidden = pl.col("logged_document_id").is_in(drawn_documents)
    prompts = asked_in_store(store, documents.filter(is_public | is_hidden))
    # A row is a document that is alike to the prompt `other_id` of one of the splits.
    until_vote = documents_until_vote(store)
    all_prompts = asked_in_store(store, documents, until_vote)
    pairs = alike_in_store(store, versions, prompts, all_prompts, ALIKE_OVERLAP)
    whole = documents
    documents = pl.concat([documents, until_vote.select(documents.columns)])

    def withheld_for(is_in_split: pl.Expr) -> pl.Expr:
        """Whether a conversation is on a prompt of a split, or on one alike."""
        prompts_of_split = whole.filter(is_in_split)["document_id"]
        alike_documents = pairs.filter(pl.col("other_id").is_in(prompts_of_split.implode()))["document_id"]
        return pl.col("document_id").is_in(pl.concat([prompts_of_split, alike_documents]).implode())

    is_reserved = pl.col("logged_document_id").is_in(reserved_documents)
    return Withheld(
        documents.filter(withheld_for(is_public))["conversation_id"],
        documents.filter(withheld_for(is_hidden) | is_reserved)["conversation_id"],
    )


def public_prompts(store: Store, items: pl.Series) -> pl.Series:
    """Conversations whose prompts any benchmark publishes: those drawn, and `items` of written or generated ones."""
    drawn = store.read("bench", ["conversation_id"])["conversation_id"]
    return pl.concat([drawn, items.alias(drawn.name)]).unique(maintain_order=True)


def _reserved_now(store: Store, bench: BenchSettings) -> pl.Series:
    """Documents that the next `sample` will reserve."""
    of_days = days(store)
    if not of_days:
        return pl.Series(dtype=pl.String)
    return reserved(asked_by_users(store, bench), bench, epoch_of(bench, of_days[-1]))["document_id"]
