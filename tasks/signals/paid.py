"""Paid models: calling them, and estimating what the calls would cost.

Items with a stored answer are never sent again, even after a killed run. An estimate counts items without a value; it
sends and spends nothing.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from typing import Any, Generic, NamedTuple, ParamSpec

import polars as pl

from schemas.run import PAUSED, Estimate, Prices
from schemas.signals import MeasuredOn
from schemas.tables import SIGNAL_ENTRIES
from tasks.providers import Providers
from tasks.providers.ask_items import ask_missing
from tasks.providers.capabilities import BatchQueue, Document, Failed, RemoteModel
from tasks.providers.cost import Count, ExpectedUse, ItemSize, Size, estimate_row, expected_use
from tasks.providers.upload import encoded_size
from tasks.runtime.budget import ledger
from tasks.runtime.progress import Measured
from tasks.signals.registry import Item, Signal, chosen_signals, signal_of, text_signals
from tasks.signals.run import ITEMS_A_CALL, Load, RowsOfSignals, cut, measured, missing
from tasks.storage.parts import append_incrementally
from tasks.storage.queries.released import released_rows
from tasks.storage.queries.signals import table_name
from tasks.storage.tables import Store

P = ParamSpec("P")


def once_more(measure: Callable[P, Measured]) -> Callable[P, Measured]:
    """Decorator: a paused service is tried once more at the end; if it answers, what it left is measured."""

    @functools.wraps(measure)
    def measured(*args: P.args, **kwargs: P.kwargs) -> Measured:
        total = measure(*args, **kwargs)
        if any(reason == PAUSED for _, reason in total.failures) and ledger().try_again():
            for (signal, _), count in total.failures.items():  # all that failed is asked for again
                total.calls[signal] -= count
            total.failures.clear()
            total.add(measure(*args, **kwargs))
        return total

    return measured


class Asked(NamedTuple, Generic[Item]):
    """A signal, its paid model, and the items to send."""

    signal: Signal[Item]
    model: RemoteModel
    content_ids: Sequence[str]
    load: Load[Item]


def measure_paid(store: Store, work: Sequence[Asked[Item]], hours: float | None, now: datetime) -> Measured:
    """Ask paid models about items, and store answers as they arrive.

    One call an item, `model.calls_at_once` in parallel; with `hours` through the vendors' batch APIs, where the
    questions of all signals are sent before the first answer is awaited, for so long.
    """
    total = Measured()
    with ExitStack() as stack:
        answers_by_signal = list[tuple[str, Iterator[_Answers]]]()
        for signal_work in work:
            queue = None if hours is None else stack.enter_context(signal_work.model.together(store, hours))
            answers_by_signal.append((signal_work.signal.name, _answers(signal_work, queue, now)))
        for name, answers in answers_by_signal:
            with append_incrementally(store, table_name(name)) as keep:
                for rows, counts in answers:
                    total.add(counts)
                    keep(rows.get(name, []))
    return total


_Answers = tuple[RowsOfSignals, Measured]
"""Rows of a signal of some items, and the counts of the work."""


def _answers(signal_work: Asked[Item], queue: BatchQueue | None, now: datetime) -> Iterator[_Answers]:
    """Answers of the model about one item after another; about some items at a time where questions wait in a queue.

    All questions of a queue are sent before this returns.
    """

    def measure(content_ids: Sequence[str]) -> _Answers | Failed:
        return measured([signal_work.signal], content_ids, signal_work.load(content_ids), now)

    blocks = list(cut(signal_work.content_ids, 1 if queue is None else ITEMS_A_CALL))
    results = ask_missing(signal_work.signal.name, measure, blocks, signal_work.model.calls_at_once, queue)
    return (answers for answers in results if not isinstance(answers, Failed))


def image_sizes(store: Store, *tables: str) -> dict[str, Size]:
    """Image id -> width and height in pixels, of the images in these tables."""
    columns = ["image_id", "width", "height"]
    rows = (row for name in tables for row in store.read(name, columns).iter_rows())
    return {image_id: (width, height) for image_id, width, height in rows}


def estimate_images(
    store: Store, images: Mapping[str, Size], providers: Providers, prices: Prices, count: Count, kinds: Sequence[str]
) -> list[Estimate]:
    """Cost of these signals of images (id -> size in pixels) that lack a value, at paid services."""
    signals_by_call = dict[str, list[str]]()
    paid = providers.paid(kinds)
    for name in (name for name in kinds if name in paid):
        together = getattr(providers[name], "shares_calls", False)
        signals_by_call.setdefault(providers[name].service if together else name, []).append(name)
    estimates = []
    for names in signals_by_call.values():
        missing_images = {image_id for name in names for image_id in missing(store, signal_of(name, providers), images)}
        items = [ItemSize(images=(images[image_id],)) for image_id in sorted(missing_images)]
        use = _as_measured(provider := providers[names[0]], items, count)
        use = replace(use, units=use.units * len(names))
        estimates.append(estimate_row(provider.service, ", ".join(names), len(items), use, prices))
    return estimates


def estimate_texts(
    store: Store, texts: Mapping[MeasuredOn, Mapping[str, str]], providers: Providers, prices: Prices, count: Count
) -> list[Estimate]:
    """Cost of measuring texts (text id -> text) at paid services."""
    estimates, kinds = [], text_signals(providers)
    paid = providers.paid(kinds)
    for name in (name for name in kinds if name in paid):
        sent = {text_id: text for text_id, text in texts[SIGNAL_ENTRIES[name].on].items() if text.strip()}
        missing_texts = {*missing(store, kinds[name], sent)}
        # In the order in which they are measured: how many fit into a request depends on their neighbours.
        items = [ItemSize(text) for content_id, text in sent.items() if content_id in missing_texts]
        use = _as_measured(providers[name], items, count)
        estimates.append(estimate_row(providers[name].service, name, len(items), use, prices))
    return estimates


def _as_measured(provider: Any, items: Sequence[ItemSize], count: Count) -> ExpectedUse:
    """Use by items that are measured in batches: a request never holds items of two."""
    uses = (
        expected_use(provider, items[start : start + ITEMS_A_CALL], count)
        for start in range(0, len(items), ITEMS_A_CALL)
    )
    return functools.reduce(ExpectedUse.plus, uses, ExpectedUse(0))


_DOCUMENTS = """
    -- a row is one conversation, as it would be released, of a wanted document
    SELECT conversation_id, document_id, tstamp, turns, image_ids FROM released SEMI JOIN wanted USING (document_id)
"""


def estimate_documents(
    store: Store,
    source: Store,
    documents: Iterable[str],
    images: Mapping[str, Size],
    providers: Providers,
    prices: Prices,
    count: Count,
) -> list[Estimate]:
    """Cost of document signals at paid services: by single calls and, where it can, by the vendor's batch API.

    `documents` are ids of documents of `source`, of which those count that lack a value in `store`.
    """
    ids, estimates = set(documents), []
    failed = ids.intersection(store.read("failures", ["document_id"])["document_id"])
    kinds = chosen_signals(providers, MeasuredOn.DOCUMENTS, MeasuredOn.FAILURES, screens=False)
    paid = providers.paid(kinds)
    for name in (name for name in kinds if name in paid):
        signal = kinds[name]
        lacking = missing(store, signal, ids if SIGNAL_ENTRIES[name].on is MeasuredOn.DOCUMENTS else failed)
        missing_documents = pl.DataFrame({"document_id": pl.Series(lacking, dtype=pl.String)})
        rows = released_rows(source, _DOCUMENTS, wanted=missing_documents).unique(
            "document_id", keep="first", maintain_order=True
        )
        items = [
            _document_size(turns, image_ids, images) for turns, image_ids in rows["turns", "image_ids"].iter_rows()
        ]
        use = expected_use(providers[name], items, count)
        modes = ("one by one", "batch") if hasattr(signal.model, "together") else ("one by one",)
        estimates += [estimate_row(providers[name].service, name, len(items), use, prices, mode) for mode in modes]
    return estimates


def estimate_tags(
    described_as: str, documents: Sequence[Document], signal: str, providers: Providers, prices: Prices, count: Count
) -> Estimate:
    """Cost of one signal of loaded documents at the chosen service, by single calls; `described_as` says whose."""
    items = [
        ItemSize(document.prompt, tuple(encoded_size(image) for _, image in document.images)) for document in documents
    ]
    use, service = expected_use(providers[signal], items, count), providers[signal].service
    return estimate_row(service, f"{signal} by {described_as}", len(items), use, prices)


def estimate_topic_names(topics_most: int, providers: Providers, prices: Prices, count: Count) -> list[Estimate]:
    """Cost of naming at most `topics_most` topics at a paid service."""
    if not providers.paid(["topic_names"]):
        return []
    namer = providers["topic_names"]
    use = expected_use(namer, [ItemSize()] * topics_most, count)
    return [estimate_row(namer.service, "topic_names (at most)", topics_most, use, prices)]


def _document_size(turns: Iterable[dict[str, str]], image_ids: Iterable[str], sizes: Mapping[str, Size]) -> ItemSize:
    prompt = "\n\n".join(turn["content"] for turn in turns if turn["role"] == "user")
    return ItemSize(prompt, tuple(sizes[image_id] for image_id in image_ids if image_id in sizes))
