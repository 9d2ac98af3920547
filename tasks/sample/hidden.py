"""The hidden split of an epoch, and what the epoch changes about it."""

from collections.abc import Iterator

import polars as pl

from schemas.bench import HiddenChange, HiddenItem
from schemas.settings import BenchSettings
from tasks.contamination.reserve import month_name
from tasks.sample.draw import draw

_LOT_SEED = 0
"""The hidden split does not change with the seed of a run."""


def hidden_items(
    kept: pl.DataFrame, secret: pl.DataFrame, hideable: pl.DataFrame, bench: BenchSettings, epoch: int
) -> list[HiddenItem]:
    """Every reserved prompt that was kept, and which of them the epoch's split has.

    `secret` has document_id and first_month of what is reserved; `hideable` are the eligible ones among them; both
    `kept` and `hideable` have asked_id, and `hideable` topic.
    """
    drawn = _split(hideable, secret, bench, epoch)
    topic = dict(hideable.select("asked_id", "topic").iter_rows())
    asked = kept.select(document_id="asked_id").unique().join(secret, on="document_id").sort("document_id")
    return [
        HiddenItem(
            document_id=document,
            topic=topic.get(document, -1),
            first_month=month_name(month),
            last_month=month_name(month + bench.hidden_months - 1),
            drawn=document in drawn,
        )
        for document, month in asked.select("document_id", "first_month").iter_rows()
    ]


def _split(hideable: pl.DataFrame, months: pl.DataFrame, bench: BenchSettings, epoch: int) -> set[str]:
    """asked_id of the hidden split: of prompts first asked in the epoch's months, uniformly over topics."""
    within = pl.col("first_month").is_between(epoch - bench.hidden_months + 1, epoch)
    dated = hideable.join(months.filter(within), left_on="asked_id", right_on="document_id")
    of_topic = {t: list(ids) for t, ids in dated.group_by("topic").agg("asked_id").sort("topic").iter_rows()}
    return {document for some in draw(of_topic, bench.hidden_size, _LOT_SEED).values() for document in some}


def hidden_changes(
    hideable: pl.DataFrame, months: pl.DataFrame, bench: BenchSettings, epoch: int
) -> Iterator[HiddenChange]:
    """Which prompts the epoch brings in and takes out, compared with the month before it, by what is known now.

    `months` reaches back to the prompts that retire with the epoch.
    """
    before, after = (_split(hideable, months, bench, month) for month in (epoch - 1, epoch))
    month_of = dict(months.select("document_id", "first_month").iter_rows())
    for document in hideable["asked_id"]:
        if (document in before) == (document in after):
            continue
        asked = month_name(month_of[document])
        yield HiddenChange(
            document_id=document,
            epoch=month_name(epoch),
            change="enters" if document in after else "retires",
            why=_why(document in after, month_of[document], asked, bench, epoch),
        )


def _why(enters: bool, month: int, asked: str, bench: BenchSettings, epoch: int) -> str:
    if enters:
        return f"first asked in {asked}" if month == epoch else f"asked in {asked}; a seat of its topic is free"
    if month <= epoch - bench.hidden_months:
        return f"asked in {asked}: its {bench.hidden_months} months are over"
    return f"asked in {asked}; its seat went to another prompt"
