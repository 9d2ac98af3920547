"""Draws both splits: seats per topic, the documents that get them, the hidden split of a month; names a draw."""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import polars as pl

from schemas.benches.bench import HiddenChange, HiddenItem
from schemas.errors import BadInput
from schemas.settings import BenchSettings
from tasks.bench.contamination.guard import month_name
from tasks.storage.content_id import combined_id
from tasks.storage.queries.released import kept_conversations
from tasks.storage.tables import Store

_HIDDEN_SEED = 0
"""Fixed, so that the hidden split does not depend on the seed of a run."""
HIDDEN_PREFIX = "hidden-"
"""Start of the name of a draw whose prompts, answers and verdicts never leave the store."""


def quotas(sizes: Mapping[int, int], total: int) -> dict[int, int]:
    """Seats for each topic: equal shares; what a small topic cannot fill is shared by the others.

    Two topics with documents left over differ by at most one seat. Remaining seats go to the largest topics, then to
    lower topic numbers.
    """
    seats, free_seats = {}, min(total, sum(sizes.values()))
    for place, topic in enumerate(sorted(sizes, key=lambda t: (sizes[t], -t))):
        seats[topic] = min(sizes[topic], free_seats // (len(sizes) - place))
        free_seats -= seats[topic]
    return seats


def proportional_quotas(sizes: Mapping[int, int], total: int) -> dict[int, int]:
    """Seats for each topic in proportion to its size, at least one while seats last (Webster's divisor method, 1832).

    Each seat goes to the topic with the largest size / (2 seats + 1), on a tie to the lower number. The ratio is above
    1/2 for a topic with documents left and below 1/2 for one without, so no topic gets more seats than documents.
    """
    seats = dict.fromkeys(sizes, 0)
    for _ in range(min(total, sum(sizes.values()))):
        seats[max(sizes, key=lambda t: (not seats[t], sizes[t] / (2 * seats[t] + 1), -t))] += 1
    return seats


def seats_again(sizes: Mapping[int, int], total: int, before: Mapping[int, int]) -> dict[int, int]:
    """Seats for each topic as `before`; what a topic cannot fill any more goes to those with the fewest seats."""
    seats = {topic: min(size, before.get(topic, 0)) for topic, size in sizes.items()}
    for _ in range(min(total, sum(sizes.values())) - sum(seats.values())):
        open_topics = (topic for topic in sizes if seats[topic] < sizes[topic])
        seats[min(open_topics, key=lambda topic: (seats[topic], -sizes[topic], topic))] += 1
    return seats


def draw(
    documents: Mapping[int, Sequence[str]],
    total: int,
    seed: int,
    weights: Mapping[str, float] | None = None,
    seats_of: Callable[[Mapping[int, int], int], dict[int, int]] = quotas,
) -> dict[int, list[str]]:
    """Draw `total` documents without replacement (all, if there are fewer); topic -> its drawn documents.

    A hash of seed and document decides, so new documents replace few of those drawn before. Within a topic, a document
    with twice the weight is twice as likely to come first (Efraimidis and Spirakis 2006); infinite ones are the first.
    """
    seats = seats_of({topic: len(members) for topic, members in documents.items()}, total)
    heavy = weights or {}
    return {
        topic: sorted(members, key=lambda document: _place(document, seed, heavy.get(document, 1.0)))[: seats[topic]]
        for topic, members in documents.items()
    }


def by_topic(prompts: pl.DataFrame, column: str = "document_id") -> dict[int, list[str]]:
    """Topic -> ids of its documents."""
    # One row is one topic with all its ids; sorted, because groups come in any order.
    return {topic: list(ids) for topic, ids in prompts.group_by("topic").agg(column).sort("topic").iter_rows()}


def lot(document: str, seed: int) -> str:
    """32 hex digits; sorting documents by them shuffles them."""
    return hashlib.blake2b(f"{seed}/{document}".encode(), digest_size=16).hexdigest()


def _place(document: str, seed: int, weight: float) -> tuple[float, str]:
    """Sort key of a document: exponentially distributed with rate `weight`."""
    drawn = lot(document, seed)
    return -math.log1p(-int(drawn[:13], 16) / 2**52) / weight, drawn


def hidden_items(
    kept: pl.DataFrame, secret: pl.DataFrame, hideable: pl.DataFrame, bench: BenchSettings, epoch: int
) -> list[HiddenItem]:
    """Every reserved prompt that was kept, with `drawn` for those in the split of `epoch`.

    `secret` has document_id and first_month of the reserved prompts; `hideable` has asked_id and topic of those that
    are eligible; `kept` has asked_id.
    """
    drawn = _split(hideable, secret, bench, epoch)
    topic = dict(hideable.select("asked_id", "topic").iter_rows())
    # One row is one reserved prompt, however many kept conversations have it, with its first month.
    reserved_prompts = kept.select(document_id="asked_id").unique().join(secret, on="document_id").sort("document_id")
    return [
        HiddenItem(
            document_id=document,
            topic=topic.get(document, -1),
            first_month=month_name(month),
            last_month=month_name(month + bench.hidden_months - 1),
            drawn=document in drawn,
        )
        for document, month in reserved_prompts.select("document_id", "first_month").iter_rows()
    ]


def _split(hideable: pl.DataFrame, months: pl.DataFrame, bench: BenchSettings, epoch: int) -> set[str]:
    """asked_id of the hidden split: drawn evenly over topics from prompts first asked in the epoch's months."""
    within = pl.col("first_month").is_between(epoch - bench.hidden_months + 1, epoch)
    dated = hideable.join(months.filter(within), left_on="asked_id", right_on="document_id")
    drawn = draw(by_topic(dated, "asked_id"), bench.hidden_size, _HIDDEN_SEED)
    return {document for documents in drawn.values() for document in documents}


def hidden_changes(
    hideable: pl.DataFrame, months: pl.DataFrame, bench: BenchSettings, epoch: int
) -> Iterator[HiddenChange]:
    """Prompts that enter or retire in `epoch`, compared with the month before; both splits are drawn from today's data.

    `months` also covers the prompts that retire.
    """
    before, after = (_split(hideable, months, bench, month) for month in (epoch - 1, epoch))
    month_of = dict(months.select("document_id", "first_month").iter_rows())
    for document in hideable["asked_id"]:
        if (document in before) == (document in after):
            continue
        first_month = month_name(month_of[document])
        yield HiddenChange(
            document_id=document,
            epoch=month_name(epoch),
            change="enters" if document in after else "retires",
            why=_why(document in after, month_of[document], first_month, bench, epoch),
        )


def _why(enters: bool, month: int, first_month: str, bench: BenchSettings, epoch: int) -> str:
    if enters:
        return (
            f"first asked in {first_month}"
            if month == epoch
            else f"asked in {first_month}; a seat of its topic is free"
        )
    if month <= epoch - bench.hidden_months:
        return f"asked in {first_month}: its {bench.hidden_months} months are over"
    return f"asked in {first_month}; its seat went to another prompt"


def drawn_prompts(store: Store, hidden: bool) -> pl.DataFrame:
    """Kept prompts of a split as they would be released, with `question_id`; raises BadInput when one is not kept."""
    kept = kept_conversations(store)
    return _hidden(store, kept) if hidden else _public(store, kept)


def draw_name(drawn: pl.DataFrame, hidden: bool) -> str:
    """Name of a draw: a hash of its prompts."""
    ids = drawn.select("question_id", "document_id").sort("question_id")
    name = combined_id("draw", (name for row in ids.iter_rows() for name in row))[:12]
    return f"{HIDDEN_PREFIX if hidden else ''}{name}"


def _public(store: Store, kept: pl.DataFrame) -> pl.DataFrame:
    bench = store.read("bench", ["conversation_id"])
    drawn = kept.join(bench, on="conversation_id").rename({"conversation_id": "question_id"})
    if drawn.height < bench.height:
        raise BadInput(
            f"store {store.root!r}: {bench.height - drawn.height:,} prompts of its benchmark are not kept any more; "
            "draw it again with `curate sample`"
        )
    return drawn


def _hidden(store: Store, kept: pl.DataFrame) -> pl.DataFrame:
    """Kept prompts of the hidden split, each of the first conversation that has it."""
    drawn = store.read("hidden").filter("drawn").select(asked_id="document_id")  # before redaction
    asked_ids = store.read("conversations", ["conversation_id", "document_id"]).rename({"document_id": "asked_id"})
    rows = kept.join(asked_ids, on="conversation_id").join(drawn, on="asked_id").sort("tstamp", "conversation_id")
    first = rows.unique("asked_id", keep="first", maintain_order=True)
    return first.rename({"conversation_id": "question_id"})
