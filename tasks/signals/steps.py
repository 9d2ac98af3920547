"""Prefect tasks that measure signals of images, texts and documents."""

from collections.abc import Iterable, Mapping, Sequence
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
from tasks.signals.documents import stored_documents
from tasks.signals.paid import Asked, measure_paid, once_more
from tasks.signals.registry import Signal, chosen_signals, image_signals, signal_of, text_signals
from tasks.signals.run import ImageItems, Measurer, TextItems, measure_items, missing, versions_by_name
from tasks.storage.content_id import text_id
from tasks.storage.queries.released import (
    kept_conversations,
    logged_on,
    released_rows,
    require_redactions,
)
from tasks.storage.queries.signals import StoredImages, Versions, lacking_ids
from tasks.storage.queries.texts import ConversationForm, Texts
from tasks.storage.tables import Store

OF_ORIGINALS = frozenset({"nsfw", "image_hash", "image_colour", "image_inside", "image_moderation"})
"""Image signals that are not measured on redacted images, because rules and duplicate search use the originals."""

KINDS_OF_TEXT = (MeasuredOn.MESSAGES, MeasuredOn.ASSISTANT_MESSAGES, MeasuredOn.PROMPT)
"""Kinds of text. An answer is a message, too; so is what was read in an image, a thought, and a vote's reason."""
DECIDED_MIN = 100
"""Decisions from which a share of kept conversations is taken for later ones."""


def signal_versions(providers: Providers) -> Versions:
    """The version of every signal under the chosen providers. Loads no model."""
    of_documents = chosen_signals(providers, MeasuredOn.DOCUMENTS, MeasuredOn.FAILURES, screens=False)
    return versions_by_name({**image_signals(providers), **text_signals(providers), **of_documents})


@step
def catch_up_images(settings: Settings, providers: Providers) -> StageReport:
    """Measure image signals that stored images lack: a new signal, another provider, or an earlier failure."""
    store = Store.open(settings.store)
    items = ImageItems(store, StoredImages(store).part_of)
    images_of_days = shown_on(store, settings)
    image_ids = items.part_of if images_of_days is None else items.part_of.keys() & images_of_days
    done = _measure_missing(settings, store, providers, items, image_signals(providers), image_ids)
    return report("catch_up_images", done)


@step
def measure_texts(settings: Settings, providers: Providers, stage: str, kept_only: bool) -> StageReport:
    """Measure text signals: screening ones on all conversations, or descriptive ones on those the policy keeps."""
    store, form = Store.open(settings.store), ConversationForm.KEPT if kept_only else ConversationForm.LOGGED
    total = Measured()
    for kind in KINDS_OF_TEXT:
        texts = Texts(form, kind, settings.since, settings.until)
        signals = chosen_signals(providers, kind, screens=not kept_only)
        total.add(_measure_texts(settings, store, providers, texts, signals))
    if kept_only:  # whether what was read in images of kept conversations is code
        texts = Texts(form, MeasuredOn.IMAGES, settings.since, settings.until)
        total.add(_measure_texts(settings, store, providers, texts, {"code": signal_of("code", providers)}))
    return report(stage, total)


_IMAGES_OF_REDACTED = """
    -- a row is one image that a redacted conversation shows
    SELECT DISTINCT image_id FROM shown_images WHERE form = 'redacted'
"""


@step
def measure_redacted(settings: Settings, providers: Providers) -> StageReport:
    """Measure redacted images and texts, to check that nothing is left to redact and for later stages."""
    store = Store.open(settings.store)
    items = ImageItems(store, StoredImages(store, "redacted_images").part_of)
    shown_images = store.ask(_IMAGES_OF_REDACTED)["image_id"]
    redacted_images = shown_images.filter(shown_images.is_in(list(items.part_of)))
    signals = {name: signal for name, signal in image_signals(providers).items() if name not in OF_ORIGINALS}
    total = _measure_missing(settings, store, providers, items, signals, redacted_images)
    for kind in KINDS_OF_TEXT:
        signals_of_kind = chosen_signals(providers, kind, screens=True)
        total.add(_measure_texts(settings, store, providers, Texts(ConversationForm.REDACTED, kind), signals_of_kind))
    return report("measure_redacted", total)


@step
def measure_answers(settings: Settings, providers: Providers, names: Sequence[str], texts: pl.Series) -> StageReport:
    """Measure these signals of texts that no conversation holds, and of the redacted forms of screened ones.

    They are answers and verdicts on the judge's cards, and later answers and references of failures.
    """
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
    store, text_of = Store.open(settings.store), {text_id(text): text for text in texts}
    signals = chosen_signals(providers, MeasuredOn.MESSAGES, screens=True)
    counts = _measure_missing(settings, store, providers, TextItems(text_of), signals, text_of)
    return report("measure_written", counts)


@once_more
def _measure_texts(
    settings: Settings, store: Store, providers: Providers, texts: Texts, signals: Mapping[str, Signal[Any]]
) -> Measured:
    measurer, versions = Measurer(store.root, providers, datetime.now(UTC)), signal_versions(providers)
    return measurer.measure_texts(store, texts, signals, versions, settings.workers, shard_runner(settings))


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


_OF_DOCUMENTS = ["conversation_id", "tstamp", "document_id", "image_ids", "turns"]
_KEPT_DOCUMENTS = """
    -- a row is one conversation that the first pass of the policy keeps, logged on these days
    SELECT conversation_id, tstamp, document_id, document_id AS content_id, image_ids, turns
    FROM forms
    WHERE form = 'kept' AND coalesce(day >= $since, $since IS NULL) AND coalesce(day <= $until, $until IS NULL)
"""
_LACKING_DOCUMENTS = f"""
    -- a row is one of these conversations whose document lacks a signal
    SELECT conversation_id, tstamp, document_id, image_ids, turns
    FROM ({_KEPT_DOCUMENTS}) SEMI JOIN wanted USING (content_id)
"""  # noqa: S608 - a query of our own


@step
def measure_documents(settings: Settings, providers: Providers) -> StageReport:
    """Measure document signals of the conversations that the first pass of the policy keeps."""
    store = Store.open(settings.store)
    signals = chosen_signals(providers, MeasuredOn.DOCUMENTS, screens=False)
    require_redactions(store)
    window: dict[str, Any] = {"since": settings.since, "until": settings.until}
    conversations = [store.empty("conversations", _OF_DOCUMENTS)]
    for lacking_rows in lacking_ids(store, versions_by_name(signals), _KEPT_DOCUMENTS, window):
        if lacking_rows.height:
            conversations.extend(store.batches(_LACKING_DOCUMENTS, wanted=lacking_rows, **window))
    in_order = pl.concat(conversations).sort("tstamp", "conversation_id")
    return report("measure_documents", _measure_documents(settings, store, providers, in_order, signals))


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
    now, total, at_services = datetime.now(UTC), Measured(), list[Asked[Document]]()
    for name, signal in signals.items() if kept.height else ():
        documents = stored_documents(store, kept, name, providers)
        missing_ids = documents.ordered(missing(store, signal, kept["document_id"]))
        if signal.model is not None:
            at_services.append(Asked(signal, signal.model, missing_ids, documents.load))
            continue
        with progress(name, len(missing_ids)) as advance:
            load, workers = documents.load, settings.workers
            total.add(measure_items(store, signal, missing_ids, load, workers=workers, now=now, advance=advance))
    total.add(measure_paid(store, at_services, settings.batch_hours if settings.batch else None, now))
    return total


_RELEASED_DOCUMENTS = """
    -- a row is one conversation as it would be released, also if it is dropped
    SELECT conversation_id, document_id, day, tstamp FROM released
"""


def conversations_to_describe(source: Store, store: Store) -> pl.DataFrame:
    """conversation_id, document_id, day and tstamp of the conversations of `source` that `store` has not dropped.

    Of the documents that it has not decided on, as large a share as it kept, by content id, once DECIDED_MIN items have
    a decision.
    """
    decisions = store.read("decisions", ["item_kind", "item_id", "kept_by_screening"]).filter(item_kind="conversation")
    dropped = decisions.filter(~pl.col("kept_by_screening"))["item_id"]
    conversations = released_rows(source, _RELEASED_DOCUMENTS)
    conversations = conversations.filter(~pl.col("conversation_id").is_in(dropped.implode()))
    if decisions.height < DECIDED_MIN:
        return conversations
    of_documents = store.read("conversations", ["conversation_id", "document_id"])
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
        stored_days = f"{first} to {last}" if first else "none at all"
        raise BadInput(f"store {settings.store!r} has no conversation {window}; it holds {stored_days}")
    return set(rows["image_ids"].explode().drop_nulls())
