"""Paid models: calling them, and estimating what the calls would cost.

Items with a stored answer are never sent again, even after a killed run. An estimate counts items without a value; it
sends and spends nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from typing import Any, Generic, NamedTuple

import polars as pl

from schemas.run import Estimate, Prices, TokenPrice
from schemas.signals import MeasuredOn
from schemas.tags import Sees
from tasks.images.decode import DecodedImage
from tasks.providers import Providers
from tasks.providers.capabilities import RemoteModel
from tasks.runtime.parallel import map_as_done
from tasks.runtime.progress import Advance, progress, silent
from tasks.runtime.timing import Measured
from tasks.signals import (
    DESCRIPTIVE_TEXT_SIGNALS,
    DOCUMENT_SIGNALS,
    IMAGE_SIGNALS,
    SCREENING_TEXT_SIGNALS,
    Item,
    Make,
    Signal,
    failure_signals,
)
from tasks.signals.run import BATCH, Load, Rows, cut, measure_items, measured, missing
from tasks.storage.parts import append_incrementally
from tasks.storage.queries.signals import table_name
from tasks.storage.tables import Store

PROMPT_CHARACTERS, IMAGES_MAX, SIDE_MAX = 12_500, 8, 1600
"""Most that taggers send per document (`tasks/providers/production/labels.py`; a test holds them equal)."""
TOPIC_TOKENS = 1100
"""Input tokens per topic: 20 words and 10 prompts of 400 characters, at four characters a token."""
ANSWER_TOKENS, ANSWER_TOKENS_MAX = 80, 4096
"""Expected tokens of an answer without thinking, and the maximum."""

Count = Callable[[str], int]


class Asked(NamedTuple, Generic[Item]):
    """A signal, its paid model, and the items to send."""

    signal: Signal[Item]
    model: RemoteModel
    content_ids: Sequence[str]
    load: Load[Item]


def measure_one_by_one(store: Store, asked: Asked[Item], *, now: datetime, advance: Advance = silent) -> Measured:
    """One call per item, `model.calls_at_once` in parallel. Answers are stored as they arrive."""
    signal, model, content_ids, load = asked
    total = Measured()

    def work(content_id: str) -> tuple[Rows, Measured]:
        return measured([signal], [content_id], load([content_id]), now)

    with append_incrementally(store, table_name(signal.name)) as keep:
        for rows, done in map_as_done(work, content_ids, model.calls_at_once):
            total.add(done)
            keep(rows[signal.name])
            advance()
    return total


def measure_overnight(
    store: Store, work: Sequence[Asked[Item]], *, hours: float, workers: int, now: datetime
) -> Measured:
    """Use the vendor's batch API: a first pass over all items collects the questions, a second reads the answers."""
    total, nights = Measured(), []
    with ExitStack() as stack:
        for signal, model, content_ids, load in work:
            nights.append(stack.enter_context(model.together(store, hours)))
            ask = partial(_collect, signal, load)
            with progress(f"{signal.name}: questions", len(content_ids)) as advance:
                for count in map_as_done(ask, list(cut(content_ids, BATCH)), workers):
                    advance(count)
            nights[-1].send()
        for night, (signal, _, content_ids, load) in zip(nights, work, strict=True):
            night.wait()
            total.add(measure_items(store, signal, content_ids, load, workers=workers, now=now))
    return total


def _collect(signal: Signal[Item], load: Load[Item], content_ids: Sequence[str]) -> int:
    return len(signal.values(load(content_ids)))


def estimate_images(
    known: Store,
    image_ids: Iterable[str],
    providers: Providers,
    prices: Prices,
    kinds: Mapping[str, Make[DecodedImage]] = IMAGE_SIGNALS,
) -> list[Estimate]:
    """Cost of these image signals at paid services: one unit per signal and image that lacks a value."""
    shown, asked = list(image_ids), dict[str, list[str]]()
    paid = providers.paid(kinds)
    for name in (name for name in kinds if name in paid):
        together = getattr(providers[name], "shares_calls", False)
        asked.setdefault(providers[name].service if together else name, []).append(name)
    found = []
    for names in asked.values():
        signals = [kinds[name](providers) for name in names]
        lacking = len({image_id for signal in signals for image_id in missing(known, signal, shown)})
        work = lacking, lacking, lacking * len(signals)
        found.append(_billed(providers[names[0]], ", ".join(names), work, prices))
    return found


def estimate_texts(
    known: Store, texts: Mapping[MeasuredOn, Mapping[str, str]], providers: Providers, prices: Prices, count: Count
) -> list[Estimate]:
    """Cost of measuring texts (text id -> text) at paid services: tokens of a language model, units of any other."""
    found, kinds = [], SCREENING_TEXT_SIGNALS | DESCRIPTIVE_TEXT_SIGNALS
    paid = providers.paid(kinds)
    for name in (name for name in kinds if name in paid):
        (on, make), provider = kinds[name], providers[name]
        sent = {text_id: text for text_id, text in texts[on].items() if text.strip()}
        wanted = missing(known, make(providers), sent)
        if instructions := getattr(provider, "instructions", None):  # of a language model
            work = len(wanted), sum(count(instructions) + count(sent[each]) for each in wanted)
            price = prices.tokens(provider.service)
            found.append(_tagging(provider.service, "one by one", name, len(wanted), work, price))
        else:
            units_of = getattr(provider, "units_of", lambda text: 1)
            units = sum(units_of(sent[each]) for each in wanted)
            found.append(_billed(provider, name, (len(wanted), units, units), prices))
    return found


def _billed(provider: Any, signals: str, work: tuple[int, int, int], prices: Prices) -> Estimate:
    """The cost of `work` (items, what is sent, billed units) at a service that bills units."""
    items, sent, units = work
    price = prices.unit_usd(provider.service)
    usd = None if price is None else units * price
    return Estimate(
        service=provider.service,
        mode="one by one",
        signals=signals,
        items=items,
        calls=-(-sent // getattr(provider, "items_a_call", 1)),
        units=units,
        usd=usd,
        usd_most=usd,
    )


def estimate_documents(
    known: Store, conversations: pl.DataFrame, images: pl.DataFrame, providers: Providers, prices: Prices, count: Count
) -> list[Estimate]:
    """Cost of document signals at language models, with single calls and with the vendor's batch API."""
    first = conversations.unique("document_id", keep="first", maintain_order=True)
    sizes = {image_id: (w, h) for image_id, w, h in images.select("image_id", "width", "height").iter_rows()}
    found = []
    failed = first.join(known.read("failures", ["document_id"]), on="document_id", how="semi", maintain_order="left")
    for name, make in (DOCUMENT_SIGNALS | failure_signals(providers)).items():
        among = first if name in DOCUMENT_SIGNALS else failed
        service, asked = getattr(providers[name], "service", None), getattr(providers[name], "asked", None)
        if service is None:
            continue
        wanted = among.filter(pl.col("document_id").is_in(missing(known, make(providers), among["document_id"])))
        if asked is None:  # a provider of another package, whose prompts are unknown
            found.append(_billed(providers[name], name, 3 * (wanted.height,), prices))
            continue
        price = prices.tokens(service)
        needs = [_needs(turns, ids, sizes, price, count) for turns, ids in wanted["turns", "image_ids"].iter_rows()]
        work = _work(asked, needs, count)
        found += [_tagging(service, mode, name, len(needs), work, price) for mode in ("one by one", "batch")]
    return found


def estimate_topic_names(topics_most: int, providers: Providers, prices: Prices, count: Count) -> list[Estimate]:
    """Cost of naming at most `topics_most` topics with a language model, one call each."""
    namer = providers["topic_names"]
    service, instructions = getattr(namer, "service", None), getattr(namer, "instructions", None)
    if service is None:
        return []
    if instructions is None:  # a provider of another package, whose prompts are unknown
        return [_billed(namer, "topic_names (at most)", 3 * (topics_most,), prices)]
    tokens = topics_most * (count(instructions) + TOPIC_TOKENS)
    price, mode = prices.tokens(service), "one by one"
    return [_tagging(service, mode, "topic_names (at most)", topics_most, (topics_most, tokens), price)]


def _tagging(
    service: str, mode: str, signal: str, items: int, work: tuple[int, int], price: TokenPrice | None
) -> Estimate:
    calls, input_tokens = work
    share = price.batch_share if price and mode == "batch" else 1.0
    usd, most = (
        None if price is None else share * price.usd(input_tokens, calls * answer)
        for answer in (ANSWER_TOKENS, ANSWER_TOKENS_MAX)
    )
    return Estimate(
        service=service, mode=mode, signals=signal, items=items, calls=calls, input_tokens=input_tokens,
        output_tokens=calls * ANSWER_TOKENS, usd=usd, usd_most=most,
    )  # fmt: skip


def _work(asked: Iterable[Any], needs: Sequence[tuple[int, int | None]], count: Count) -> tuple[int, int]:
    """(calls, input tokens) of these questions; `needs` has (prompt tokens, image tokens) of each document."""
    calls = tokens = 0
    for each in asked:
        instructions = count(each.prompt.text)
        for prompt, images in needs:
            if images is None and each.without_images is not None:
                continue
            calls += 1
            tokens += (
                instructions + prompt * (each.sees is not Sees.IMAGES) + (images or 0) * (each.sees is not Sees.PROMPT)
            )
    return calls, tokens


def _needs(
    turns: Iterable[dict[str, str]],
    image_ids: Sequence[str],
    sizes: dict[str, tuple[int, int]],
    price: TokenPrice | None,
    count: Count,
) -> tuple[int, int | None]:
    """(prompt tokens, image tokens) of a document; None instead of image tokens when it has no image."""
    prompt = "\n\n".join(turn["content"] for turn in turns if turn["role"] == "user")[:PROMPT_CHARACTERS]
    shown = [sizes[image_id] for image_id in image_ids if image_id in sizes][:IMAGES_MAX]
    tokens = sum(price.image_tokens(*_sent(*size)) for size in shown) if price else 0
    return count(prompt), tokens if len(image_ids) else None


def _sent(width: int, height: int) -> tuple[int, int]:
    scale = min(1.0, SIDE_MAX / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))
