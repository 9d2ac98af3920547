"""The Prefect skin of measure: pictures that lack a signal, then texts and documents."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

import polars as pl
from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.run import StageReport
from schemas.settings import Settings
from tasks.content_id import text_id
from tasks.lookup.facts import Versions, facts
from tasks.lookup.images import StoredImages
from tasks.lookup.released import conversations_as_released
from tasks.measure import (
    DESCRIPTIVE_TEXT_SIGNALS,
    DOCUMENT_SIGNALS,
    PICTURE_SIGNALS,
    SCREENING_TEXT_SIGNALS,
    Texts,
    picture_signals,
    run,
)
from tasks.measure.documents import Documents, picture_vectors
from tasks.measure.remote import Load, Overnight, measure_one_by_one, measure_overnight
from tasks.measure.run import look_at_stored, measure_items
from tasks.measure.signal import Signal
from tasks.measure.spread import Spread
from tasks.measure.store import Measured, missing
from tasks.pixels.pictures import Picture
from tasks.providers import Providers
from tasks.providers.capabilities import Document
from tasks.running.progress import progress
from tasks.running.shards import shard_runner
from tasks.running.timing import timed
from tasks.tables import Store

OF_ORIGINALS = frozenset({"nsfw", "image_hash", "image_moderation"})
"""Picture signals that nobody asks of a redacted picture: rules and duplicates look at what was taken in."""


def signal_versions(providers: Providers) -> Versions:
    """The version of every signal under the chosen providers. Loads no model."""
    texts = {
        name: make(providers).version for name, (_, make) in (SCREENING_TEXT_SIGNALS | DESCRIPTIVE_TEXT_SIGNALS).items()
    }
    pictures = {name: signal.version for name, signal in picture_signals(providers).items()}
    documents = {name: make(providers).version for name, make in DOCUMENT_SIGNALS.items()}
    return pictures | texts | documents


@task(cache_policy=NO_CACHE)
@timed
def catch_up_pictures(settings: Settings, providers: Providers) -> StageReport:
    """Picture signals that stored pictures lack: after a new signal, another provider, or a failure."""
    store, now = Store.open(settings.store), datetime.now(UTC)
    images = StoredImages(store)
    signals = picture_signals(providers)
    return report(
        "catch_up_pictures", _measure_pictures(settings, store, providers, images, list(images.part_of), signals, now)
    )


def _measure_pictures(
    settings: Settings,
    store: Store,
    providers: Providers,
    images: StoredImages,
    image_ids: Sequence[str],
    signals: Mapping[str, Signal[Picture]],
    now: datetime,
) -> Measured:
    """What each picture lacks; pictures that lack the same signals are decoded once for all of them."""
    total, lacking = Measured(), dict[str, list[str]]()
    for name, signal in signals.items():
        for image_id in missing(store, signal, image_ids):
            lacking.setdefault(image_id, []).append(name)
    for names in sorted({tuple(names) for names in lacking.values()}):
        wanted = images.ordered(image_id for image_id, of_image in lacking.items() if tuple(of_image) == names)
        spread = _spread(settings, store, providers, now) if len(wanted) > run.PICTURES_A_PART else None
        here = providers.paid(names) if spread else set(names)
        elsewhere = [name for name in names if name not in here]
        with progress("pictures to catch up", len(wanted)) as advance:
            if spread and elsewhere:
                total.add(spread.pictures(elsewhere, wanted, images, advance))
            if chosen := [signals[name] for name in names if name in here]:
                total.add(look_at_stored(store, images, wanted, chosen, settings.workers, now, advance))
    return total


def _spread(settings: Settings, store: Store, providers: Providers, now: datetime) -> Spread | None:
    """Who measures in other processes, if a task runner was chosen. One shard alone is not worth the way there."""
    runner = shard_runner(settings)
    return None if runner is None else Spread(runner, store, providers, now)


@task(cache_policy=NO_CACHE)
@timed
def measure_texts(settings: Settings, providers: Providers, stage: str, kept_only: bool) -> StageReport:
    """Text signals: screening on every conversation, or descriptive ones on what the policy keeps."""
    store = Store.open(settings.store)
    chosen = DESCRIPTIVE_TEXT_SIGNALS if kept_only else SCREENING_TEXT_SIGNALS
    texts = texts_of(_conversations(store, kept_only))
    if not kept_only:
        texts[Texts.MESSAGES] |= _picture_texts(store, PICTURE_SIGNALS["image_text"](providers).version)
    return report(stage, _measure_texts(store, settings, providers, texts, chosen))


@task(cache_policy=NO_CACHE)
@timed
def measure_redacted(settings: Settings, providers: Providers) -> StageReport:
    """What is said of redacted pictures and texts: whether something is left to find, and what later stages need."""
    store, now, total = Store.open(settings.store), datetime.now(UTC), Measured()
    redacted = store.read("redacted_conversations")
    images = StoredImages(store, "redacted_images")
    shown = images.ordered(redacted["image_ids"].explode().drop_nulls())
    signals = {name: signal for name, signal in picture_signals(providers).items() if name not in OF_ORIGINALS}
    total.add(_measure_pictures(settings, store, providers, images, shown, signals, now))
    texts = texts_of(redacted)
    texts[Texts.MESSAGES] |= _picture_texts(store, PICTURE_SIGNALS["image_text"](providers).version)
    total.add(_measure_texts(store, settings, providers, texts, SCREENING_TEXT_SIGNALS))
    return report("measure_redacted", total)


def _measure_texts(
    store: Store,
    settings: Settings,
    providers: Providers,
    texts: Mapping[Texts, Mapping[str, str]],
    chosen: Mapping[str, tuple[Texts, Callable[[Providers], Signal[str]]]],
) -> Measured:
    now, total = datetime.now(UTC), Measured()
    spread = _spread(settings, store, providers, now)
    paid = providers.paid(chosen) if spread else set()
    elsewhere: dict[tuple[Texts, tuple[str, ...]], list[str]] = {}
    for name, (which, make) in chosen.items():
        signal, of_signal = make(providers), texts[which]
        wanted = missing(store, signal, of_signal)
        if spread and name not in paid and len(wanted) > run.TEXTS_A_PART:
            elsewhere.setdefault((which, tuple(wanted)), []).append(name)
            continue

        def load(ids: Sequence[str], of_signal: Mapping[str, str] = of_signal) -> list[str]:
            return [of_signal[content_id] for content_id in ids]

        with progress(name, len(wanted)) as advance:
            total.add(measure_items(store, signal, wanted, load, workers=settings.workers, now=now, advance=advance))
    for (which, ids), names in elsewhere.items():
        with progress(", ".join(names), len(ids)) as advance:
            total.add(cast(Spread, spread).texts(names, ids, texts[which], advance))
    return total


@task(cache_policy=NO_CACHE)
@timed
def measure_documents(settings: Settings, providers: Providers) -> StageReport:
    """Document signals on what the policy keeps."""
    store, now, total = Store.open(settings.store), datetime.now(UTC), Measured()
    kept = _conversations(store, kept_only=True)
    versions = signal_versions(providers)
    text = facts(store, "image_text", versions["image_text"], ["text", "area_fraction"])
    layout = facts(store, "image_layout", versions["image_layout"])
    taggers = {name: providers[name] for name in DOCUMENT_SIGNALS}
    images = (
        StoredImages(store, "images", "redacted_images") if any(t.looks_at_pictures for t in taggers.values()) else None
    )
    overnight = []
    for name, make in DOCUMENT_SIGNALS.items():
        signal = make(providers)
        shown = images if taggers[name].looks_at_pictures else None
        vectors = picture_vectors(store, kept, taggers[name], versions["image_embedding"])
        documents = Documents(kept, text, layout, shown, vectors)
        wanted = documents.ordered(missing(store, signal, kept["document_id"]))
        if signal.model is not None and settings.batch:
            overnight.append(Overnight(signal, signal.model, wanted, documents.load))
        else:
            total.add(_measure_documents(store, signal, wanted, documents.load, settings.workers, now))
    total.add(measure_overnight(store, overnight, hours=settings.batch_hours, workers=settings.workers, now=now))
    return report("measure_documents", total)


def _measure_documents(
    store: Store, signal: Signal[Document], wanted: Sequence[str], load: Load[Document], workers: int, now: datetime
) -> Measured:
    with progress(signal.name, len(wanted)) as advance:
        if signal.model is None:
            return measure_items(store, signal, wanted, load, workers=workers, now=now, advance=advance)
        return measure_one_by_one(store, signal, signal.model, wanted, load, now=now, advance=advance)


def report(stage: str, done: Measured) -> StageReport:
    """What a measuring step did, as a report."""
    failures = {f"{signal}: {reason}": count for (signal, reason), count in sorted(done.failures.items())}
    return StageReport(stage=stage, model_calls=dict(sorted(done.calls.items())), failures=failures)


def texts_of(conversations: pl.DataFrame) -> dict[Texts, dict[str, str]]:
    """Text id -> text of all messages, assistant messages and prompts of some conversations."""
    messages: dict[str, str] = {}
    answers: dict[str, str] = {}
    prompts: dict[str, str] = {}
    for prompt_id, turns in conversations.select("prompt_id", "turns").iter_rows():
        for turn in turns:
            messages[turn["text_id"]] = turn["content"]
            if turn["role"] == "assistant":
                answers[turn["text_id"]] = turn["content"]
        prompts[prompt_id] = "\n\n".join(turn["content"] for turn in turns if turn["role"] == "user")
    return {Texts.MESSAGES: messages, Texts.ASSISTANT_MESSAGES: answers, Texts.PROMPT: prompts}


def conversations_to_describe(source: Store, known: Store) -> pl.DataFrame:
    """What `source` holds and `known` has not dropped: kept conversations as released, undecided ones as logged."""
    decisions = known.read("decisions", ["item_kind", "item_id", "keep"]).filter(item_kind="conversation")
    dropped = decisions.filter(~pl.col("keep"))["item_id"]
    conversations = conversations_as_released(source)
    return conversations.filter(~pl.col("conversation_id").is_in(dropped.implode()))


def _conversations(store: Store, kept_only: bool) -> pl.DataFrame:
    if not kept_only:
        return store.read("conversations")
    conversations = conversations_as_released(store)
    kept = store.read("decisions").filter("keep", item_kind="conversation")["item_id"]
    return conversations.filter(pl.col("conversation_id").is_in(kept.implode()))


def _picture_texts(store: Store, version: str) -> dict[str, str]:
    read = facts(store, "image_text", version, ["text"])["text"]
    return {text_id(text): text for text in read if text}
