"""Reserves prompts for the hidden split, and finds what the benchmark withholds from a release.

A prompt is reserved by its hash, for some months after it was first asked. That depends only on the prompt, the month
it was first asked in and the current month, not on earlier runs. So nightly runs and a backfill reserve the same
prompts, and no hidden prompt was in an earlier release.
"""

import hashlib
from dataclasses import dataclass
from datetime import date
from functools import cached_property

import polars as pl

from schemas.benches.written import AUTHOR
from schemas.settings import BenchSettings
from schemas.tables import TABLES
from tasks.bench.contamination.alike import (
    ALIKE_OVERLAP,
    AskedPrompts,
    alike,
    cosine_min_of,
    documents_of,
    embedded_in,
    original_documents,
)
from tasks.storage.parquet import compact
from tasks.storage.queries.released import days
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store, frame_schema


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


@dataclass(frozen=True)
class Withheld:
    """Ids of kept conversations."""

    bench: frozenset[str]
    """On a prompt of the public split, or one alike: left out of chat and marked in battles."""
    hidden: frozenset[str]
    """On a prompt that is reserved for the hidden split, or alike to one drawn for it: left out of everything."""


class Guard:
    """Finds kept conversations, in their released form, that the benchmark withholds from a release.

    The caller passes blocks (stores with some of the conversations) in three rounds: every block to `learn`, then every
    block to `compare`, then each to `withheld`. Memory grows with the benchmark and with the prompts alike to it.

    Prompts that arrived since the last `sample`, and that the next one will reserve, are not in the table `hidden` yet.
    They are withheld too, because a prompt that was released cannot be hidden later.
    """

    def __init__(self, store: Store, versions: Versions, bench: BenchSettings, items: pl.Series) -> None:
        """`items`: conversations that are items of other benchmarks than the drawn one."""
        self._store, self._versions, self._cosine_min = store, versions, cosine_min_of(store)
        self._public = public_prompts(store, items)
        hidden = store.read("hidden", ["document_id", "drawn"])
        self._drawn = hidden.filter("drawn")["document_id"]
        self._reserved = pl.concat([hidden["document_id"], _reserved_now(store, bench)]).unique()
        nothing = documents_of(pl.DataFrame(schema=frame_schema(TABLES["conversations"].row)))
        self._prompts = {"bench": nothing, "hidden": nothing}
        self._alike: dict[str, set[str]] = {"bench": set(), "hidden": set()}
        """Split -> ids of documents that are alike to its prompts."""

    def learn(self, block: Store, kept: pl.DataFrame) -> None:
        """Collect the prompts of both splits from a block's kept conversations."""
        public = kept.filter(pl.col("conversation_id").is_in(self._public.implode()))
        for split, drawn in (("bench", public), ("hidden", _conversations_on(self._drawn, block, kept))):
            both = pl.concat([self._prompts[split], compact(original_documents(block, drawn))])
            self._prompts[split] = both.unique("document_id", keep="first", maintain_order=True)

    def compared(self, block: Store, kept: pl.DataFrame) -> pl.Series:
        """Ids of prompts whose embeddings `compare` needs: those of both splits and those on same or near images."""
        documents = original_documents(block, kept)
        on_images = [
            documents.filter(pl.col("image").is_in(self._images(prompts).implode()))
            for prompts in self._prompts.values()
        ]
        return pl.concat([each["prompt_id"] for each in (*self._prompts.values(), *on_images)])

    def compare(self, block: Store, kept: pl.DataFrame) -> None:
        """Find documents of a block's kept conversations that are alike to the collected prompts."""
        documents = original_documents(block, kept)
        embedded = embedded_in(block, self._versions)
        for split, prompts in self._prompts.items():
            both = AskedPrompts.of(prompts), AskedPrompts.of(documents)
            found = alike(*both, self._near, embedded, self._cosine_min, ALIKE_OVERLAP)
            self._alike[split].update(found["document_id"])

    def withheld(self, block: Store, kept: pl.DataFrame) -> Withheld:
        """The block's kept conversations that are withheld."""
        ids = (
            pl.Series([*self._alike[split], *prompts["document_id"]], dtype=pl.String).implode()
            for split, prompts in self._prompts.items()
        )
        bench, hidden = (kept.filter(pl.col("document_id").is_in(each))["conversation_id"] for each in ids)
        reserved_too = _conversations_on(self._reserved, block, kept)["conversation_id"]
        return Withheld(frozenset(bench), frozenset({*hidden, *reserved_too}))

    @cached_property
    def _near(self) -> pl.DataFrame:
        """Rows of `near_images` with an image of a collected prompt."""
        images = pl.concat([prompts["image"] for prompts in self._prompts.values()]).implode()
        wanted = pl.any_horizontal(pl.col("image_a", "image_b").is_in(images))
        names = ["image_a", "image_b"]
        parts = (compact(part.filter(wanted)) for part in self._store.read_slices("near_images", names))
        return pl.concat([self._store.empty("near_images", names), *parts])

    def _images(self, prompts: pl.DataFrame) -> pl.Series:
        """Ids of the prompts' images and of images near to them."""
        own = prompts["image"]
        a, b = (self._near.filter(pl.col(end).is_in(own.implode())) for end in ("image_a", "image_b"))
        found = pl.concat([own, a["image_b"], b["image_a"]]).unique()
        return found.filter(found != "")


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


def _conversations_on(documents: pl.Series, block: Store, kept: pl.DataFrame) -> pl.DataFrame:
    """Kept conversations whose document, before redaction, is one of `documents`."""
    original = block.read("conversations", ["conversation_id", "document_id"])
    on = original.filter(pl.col("document_id").is_in(documents.implode()))
    return kept.join(on, on="conversation_id", how="semi")
