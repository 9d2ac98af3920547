"""Prefect tasks that measure signals of images, texts and documents."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import polars as pl

from schemas.errors import BadInput, window_in_words
from schemas.run import StageReport
from schemas.settings import Settings
from schemas.signals import MeasuredOn
from tasks.providers import Providers
from tasks.providers.capabilities import Document
from tasks.runtime.parallel import shard_runner
from tasks.runtime.progress import Measured, progress, report
from tasks.runtime.steps import step
from tasks.signals.documents import TextSlices, TextsOn, WaitingTexts, stored_documents, texts_by_kind, texts_in
from tasks.signals.paid import Asked, measure_one_by_one, measure_overnight, once_more
from tasks.signals.registry import Signal, chosen_signals, image_signals, signal_of, text_signals
from tasks.signals.run import ImageItems, Lacking, Measurer, TextItems, measure_items, missing
from tasks.storage.content_id import Distinct, text_id
from tasks.storage.queries.released import conversations_as_released, kept_conversations, kept_slices, logged_on
from tasks.storage.queries.signals import StoredImages, Versions
from tasks.storage.tables import Store

OF_ORIGINALS = frozenset({"nsfw", "image_hash", "image_colour", "image_moderation"})
"""Image signals that are not measured on redacted images, because rules and duplicate search use the originals."""

DECIDED_MIN = 100
"""Decisions from which a share of kept conversations is taken for later ones."""


def signal_versions(providers: Providers) -> Versions:
    """The version of every signal under the chosen providers. Loads no model."""
    of_documents = chosen_signals(providers, MeasuredOn.DOCUMENTS, MeasuredOn.FAILURES, screens=False)
    made: dict[str, Signal[Any]] = {**image_signals(providers), **text_signals(providers), **of_documents}
    return {name: signal.version for name, signal in made.items()}


@step
def catch_up_images(settings: Settings, providers: Providers) -> StageReport:
    """Measure image signals that stored images lack: a new signal, another provider, or an earlier failure."""
    store = Store.open(settings.store)
    items = ImageItems(store, StoredImages(store).part_of)
    shown = shown_on(store, settings)
    wanted = items.part_of if shown is None else items.part_of.keys() & shown
    done = _measure_missing(settings, store, providers, items, image_signals(providers), wanted)
    return report("catch_up_images", done)


@step
def measure_texts(settings: Settings, providers: Providers, stage: str, kept_only: bool) -> StageReport:
    """Measure text signals: screening ones on all conversations, or descriptive ones on those the policy keeps."""
    store, columns = Store.open(settings.store), ["conversation_id", "day", "prompt_id", "turns", "served"]

    def slices() -> Iterator[TextsOn]:
        kept = kept_slices(store, columns, "kept_by_screening") if kept_only else None
        for rows in kept or store.read_slices("conversations", columns):
            logged = logged_on(rows, settings.since, settings.until)
            yield texts_by_kind(logged)
            if not kept_only:
                yield dict.fromkeys((MeasuredOn.MESSAGES, MeasuredOn.ASSISTANT_MESSAGES), texts_in(thoughts(logged)))
        yield {MeasuredOn.MESSAGES: texts_in(vote_reasons(store, settings))}
        for texts in () if kept_only else image_texts(store, providers, shown_on(store, settings)):
            yield {MeasuredOn.MESSAGES: texts}

    done = _measure_texts(store, settings, providers, slices, screens=not kept_only)
    if kept_only:
        done.add(_measure_shown_code(store, settings, providers))
    return report(stage, done)


@step
def measure_redacted(settings: Settings, providers: Providers) -> StageReport:
    """Measure redacted images and texts, to check that nothing is left to redact and for later stages."""
    store = Store.open(settings.store)
    redacted = store.read("redacted_conversations")
    items = ImageItems(store, StoredImages(store, "redacted_images").part_of)
    shown = redacted["image_ids"].explode().drop_nulls().unique()
    stored = shown.filter(shown.is_in(list(items.part_of)))
    signals = {name: signal for name, signal in image_signals(providers).items() if name not in OF_ORIGINALS}
    total = _measure_missing(settings, store, providers, items, signals, stored)

    def slices() -> Iterator[TextsOn]:
        yield texts_by_kind(redacted)
        yield from ({MeasuredOn.MESSAGES: texts} for texts in image_texts(store, providers))

    total.add(_measure_texts(store, settings, providers, slices, screens=True))
    return report("measure_redacted", total)


@step
def measure_answers(settings: Settings, providers: Providers, names: Sequence[str], texts: pl.Series) -> StageReport:
    """Measure these signals of answers and verdicts on the judge's cards, and of their redacted forms."""
    store, total = Store.open(settings.store), Measured()
    redacted = store.read("screened_texts", ["text"]).filter(pl.col("text") != "")
    text_of = {text_id(text): text for text in pl.concat([texts, redacted["text"]])}
    signals = {name: signal_of(name, providers) for name in names}
    total.add(_measure_missing(settings, store, providers, TextItems(text_of), signals, text_of))
    return report("measure_answers", total)


@step
def measure_item_images(
    settings: Settings, providers: Providers, part_of: Mapping[str, tuple[str, str, int]]
) -> StageReport:
    """Name the objects in images of kept items; `part_of`: image id -> (table, part, row group)."""
    store = Store.open(settings.store)
    items = ImageItems(store, dict(part_of))
    signals = chosen_signals(providers, MeasuredOn.ITEM_IMAGES, screens=False) if items.part_of else {}
    return report("measure_item_images", _measure_missing(settings, store, providers, items, signals, items.part_of))


@step
def measure_written(settings: Settings, providers: Providers, texts: Sequence[str]) -> StageReport:
    """Measure the screening signals of captions and references that a release may hold."""
    texts_on = {MeasuredOn.MESSAGES: texts_in({text_id(text): text for text in texts})}
    done = _measure_texts(Store.open(settings.store), settings, providers, lambda: iter([texts_on]), screens=True)
    return report("measure_written", done)


def _measure_texts(
    store: Store, settings: Settings, providers: Providers, slices: TextSlices, screens: bool
) -> Measured:
    kinds = (MeasuredOn.MESSAGES, MeasuredOn.ASSISTANT_MESSAGES, MeasuredOn.PROMPT)
    signals = {on: chosen_signals(providers, on, screens=screens) for on in kinds}
    return _measure_slices(store, settings, providers, slices, signals)


@once_more
def _measure_slices(
    store: Store,
    settings: Settings,
    providers: Providers,
    slices: TextSlices,
    signals: Mapping[MeasuredOn, Mapping[str, Signal[Any]]],
) -> Measured:
    """Measure texts of a kind that lack one of its signals; only these are held, in a temporary database."""
    lacking = {on: Lacking(store, of_kind) for on, of_kind in signals.items()}
    for some in slices():
        for on, texts in some.items():
            lacking[on].add(texts["content_id"])
    measurer, total = Measurer(store.root, providers, datetime.now(UTC)), Measured()
    for on, wanted in lacking.items():
        if ids := [each for some_ids in wanted.by_signals().values() for each in some_ids]:
            items = TextItems(WaitingTexts(ids, (some[on] for some in slices() if on in some)))
            runner = shard_runner(settings)
            total.add(measurer.measure_lacking(store, items, signals[on], wanted, settings.workers, runner))
    return total


def _measure_shown_code(store: Store, settings: Settings, providers: Providers) -> Measured:
    """Measure whether the text in images of kept conversations is code; values are under the ids of the images."""
    version, shown = signal_of("image_text", providers).version, Distinct()
    for rows in kept_slices(store, ["conversation_id", "day", "image_ids"], "kept_by_screening"):
        shown.add(logged_on(rows, settings.since, settings.until)["image_ids"].explode())

    def slices() -> Iterator[TextsOn]:
        for rows in store.read_slices("signals/image_text", ["content_id", "version", "text"]):
            of_shown = rows.filter(shown.hold(pl.col("content_id")), version=version)
            yield {MeasuredOn.MESSAGES: of_shown.drop("version")}

    signals = {MeasuredOn.MESSAGES: {"code": signal_of("code", providers)}}
    return _measure_slices(store, settings, providers, slices, signals)


@once_more
def _measure_missing(
    settings: Settings,
    store: Store,
    providers: Providers,
    items: TextItems | ImageItems,
    signals: Mapping[str, Signal[Any]],
    content_ids: Iterable[str],
) -> Measured:
    measurer = Measurer(store.root, providers, datetime.now(UTC))
    return measurer.measure_missing(store, items, signals, content_ids, settings.workers, shard_runner(settings))


@step
def measure_documents(settings: Settings, providers: Providers) -> StageReport:
    """Measure document signals of the conversations that the policy keeps."""
    store = Store.open(settings.store)
    signals, lacking = chosen_signals(providers, MeasuredOn.DOCUMENTS, screens=False), Distinct()
    known = Lacking(store, signals)
    for rows in kept_slices(store, ["conversation_id", "day", "document_id"], "kept_by_screening"):
        known.add(logged_on(rows, settings.since, settings.until)["document_id"])
    for ids in known.by_signals().values():
        lacking.add(ids)
    asked = ["conversation_id", "tstamp", "day", "document_id", "image_ids", "turns"]
    of_lacking = lacking.hold(pl.col("document_id"))
    read = (rows.filter(of_lacking) for rows in kept_slices(store, asked, "kept_by_screening") if len(lacking))
    wanted = logged_on(pl.concat([store.empty("conversations", asked), *read]), settings.since, settings.until)
    wanted = wanted.sort("tstamp", "conversation_id")
    return report("measure_documents", _measure_documents(settings, store, providers, wanted, signals))


@step
def measure_failures(settings: Settings, providers: Providers) -> StageReport:
    """Ask the chosen taggers about the prompts of the table `failures`."""
    store = Store.open(settings.store)
    failed = store.read("failures", ["document_id"])
    kept = kept_conversations(store).join(failed, on="document_id", how="semi", maintain_order="left")
    signals = chosen_signals(providers, MeasuredOn.FAILURES, screens=False)
    return report("measure_failures", _measure_documents(settings, store, providers, kept, signals))


@once_more
def _measure_documents(
    settings: Settings, store: Store, providers: Providers, kept: pl.DataFrame, signals: Mapping[str, Signal[Document]]
) -> Measured:
    now, total, overnight = datetime.now(UTC), Measured(), list[Asked[Document]]()
    for name, signal in signals.items() if kept.height else ():
        documents = stored_documents(store, kept, name, providers)
        wanted = documents.ordered(missing(store, signal, kept["document_id"]))
        if signal.model is not None and settings.batch:
            overnight.append(Asked(signal, signal.model, wanted, documents.load))
            continue
        with progress(name, len(wanted)) as advance:
            if signal.model is not None:
                asked = Asked(signal, signal.model, wanted, documents.load)
                total.add(measure_one_by_one(store, asked, now=now, advance=advance))
            else:
                load, workers = documents.load, settings.workers
                total.add(measure_items(store, signal, wanted, load, workers=workers, now=now, advance=advance))
    if overnight:
        total.add(measure_overnight(store, overnight, hours=settings.batch_hours, workers=settings.workers, now=now))
    return total


def texts_of(conversations: pl.DataFrame) -> dict[MeasuredOn, dict[str, str]]:
    """Text id -> text of all messages, of assistant messages, and of prompts."""
    return {on: dict(texts.iter_rows()) for on, texts in texts_by_kind(conversations).items()}


def conversations_to_describe(source: Store, known: Store) -> pl.DataFrame:
    """Conversations of `source` that `known` has not dropped: kept ones as released, undecided ones as logged.

    Of the documents that it has not decided on, as large a share as it kept, by content id, once DECIDED_MIN items have
    a decision.
    """
    decisions = known.read("decisions", ["item_kind", "item_id", "kept_by_screening"]).filter(item_kind="conversation")
    dropped = decisions.filter(~pl.col("kept_by_screening"))["item_id"]
    conversations = conversations_as_released(source)
    conversations = conversations.filter(~pl.col("conversation_id").is_in(dropped.implode()))
    if decisions.height < DECIDED_MIN:
        return conversations
    of_documents = known.read("conversations", ["conversation_id", "document_id"])
    decided = of_documents.join(decisions, left_on="conversation_id", right_on="item_id")
    kept = decided.group_by("document_id").agg(pl.col("kept_by_screening").any())["kept_by_screening"]
    undecided = ~pl.col("conversation_id").is_in(decisions["item_id"].implode())
    new = conversations.filter(undecided)["document_id"].unique().sort()
    gone = new[round(len(new) * kept.sum() / max(1, len(kept))) :]
    return conversations.filter(~(undecided & pl.col("document_id").is_in(gone.implode())))


def shown_on(store: Store, settings: Settings) -> set[str] | None:
    """Images of the conversations of some days; None for all. Raises BadInput when these days have no conversation."""
    if not (settings.since or settings.until):
        return None
    every = store.read("conversations", ["day", "image_ids"])
    rows = logged_on(every, settings.since, settings.until)
    if rows.is_empty():
        window = window_in_words(settings.since, settings.until)
        first, last = every.select(first=pl.col("day").min(), last=pl.col("day").max()).row(0)
        held = f"{first} to {last}" if first else "none at all"
        raise BadInput(f"store {settings.store!r} has no conversation {window}; it holds {held}")
    return set(rows["image_ids"].explode().drop_nulls())


def vote_reasons(store: Store, settings: Settings) -> dict[str, str]:
    """Text id -> what a voter wrote about a vote; it is screened like any message."""
    slices = store.read_slices("battles", ["vote_reason_id", "vote_reason", "day"])
    days = (logged_on(rows, settings.since, settings.until).drop("day").drop_nulls() for rows in slices)
    return dict(row for rows in days for row in rows.iter_rows())


def thoughts(conversations: pl.DataFrame) -> dict[str, str]:
    """Text id -> what a model thought before an answer; it is screened like any message."""
    told = conversations["served"].explode().drop_nulls().struct.unnest()
    return dict(told.select("thinking_id", "thinking").drop_nulls().iter_rows()) if told.height else {}


def image_texts(store: Store, providers: Providers, shown: Collection[str] | None = None) -> Iterator[pl.DataFrame]:
    """content_id and text of what was recognised in images, in all or in those that are `shown`, some at a time."""
    version, among = signal_of("image_text", providers).version, pl.lit(value=True)
    if shown is not None:
        among = pl.col("content_id").is_in(list(shown))
    for rows in store.read_slices("signals/image_text", ["content_id", "version", "text"]):
        texts = rows.filter(among, pl.col("text") != "", version=version)["text"]
        yield pl.DataFrame({"content_id": pl.Series(map(text_id, texts), dtype=pl.String), "text": texts})
