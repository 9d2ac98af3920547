"""Loads the two sides of `curate tags evaluate`: from providers or label files."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import polars as pl

from schemas.errors import BadInput, known_values
from schemas.settings import Settings
from schemas.signals import MeasuredOn
from schemas.tables import SIGNAL_ENTRIES
from tasks.providers import PROVIDERS, Providers
from tasks.review.tags import reviewed_tags
from tasks.runtime.timing import Measured
from tasks.signals.documents import Documents
from tasks.signals.loose_files import read_documents, read_tag_labels
from tasks.signals.tag_evaluation import Labels, Spoken, drawn, labels_of_signal, spoken_in_store, spoken_of
from tasks.storage.lock import writing
from tasks.storage.queries.released import conversations_as_released
from tasks.storage.tables import Store

_FILES = (".csv", ".jsonl", ".ndjson")
REVIEWS = "reviews"
"""Names the labels that people gave in `curate review serve`."""


@dataclass
class Sides:
    """Values of both sides by item and label, and the prompts of the items."""

    tagger: Labels
    reference: Labels
    prompts: dict[str, str]
    failures: dict[str, int] = field(default_factory=dict)
    """Items without an answer, by `provider: reason`."""


def both_sides(
    tagger: str, reference: str, signal: str, items: Path | None, sample: int, settings: Settings, now: datetime
) -> Sides:
    """Load both sides. Raises BadInput for sides, a signal or documents that cannot be used."""
    known = [name for name, entry in SIGNAL_ENTRIES.items() if entry.on is MeasuredOn.DOCUMENTS]
    if signal not in known:
        raise BadInput(f"--signal {known_values(signal, known)}")
    store = settings.store
    if store and items:
        raise BadInput("give --store or --documents, not both")
    from_files = {
        name: read_tag_labels(Path(name), labels_of_signal(signal), signal == "taxonomy")
        for name in (tagger, reference)
        if Path(name).suffix in _FILES
    }
    if REVIEWS in (tagger, reference):
        from_files[REVIEWS] = _reviewed(store, signal)
    asked = {name: _chosen(signal, name) for name in (tagger, reference) if name not in from_files}
    if asked and not (store or items):
        raise BadInput("a provider needs documents; give --store DIR or --documents FILE")
    if items:
        said, prompts, failures = _of_items(items, signal, asked)
    elif store:
        said, prompts, failures = _of_store(signal, asked, list(from_files.values()), sample, settings, now)
    else:
        said, prompts, failures = {}, {}, {}
    both = {**from_files, **said}
    return Sides(both[tagger], both[reference], prompts, failures)


def _reviewed(store: str, signal: str) -> Spoken:
    if signal != "categories":
        raise BadInput(f"people review categories only; give a file of labels in place of {REVIEWS!r}")
    found = reviewed_tags(Store.existing(store)) if store else {}
    if not found:
        raise BadInput(f"{REVIEWS!r} needs tags that people reviewed, in --store DIR; see `curate review serve`")
    return found


def _chosen(signal: str, name: str) -> Providers:
    if name not in PROVIDERS[signal] and ":" not in name:
        raise BadInput(
            f"{signal}: unknown provider {known_values(name, PROVIDERS[signal])} Labels are in a .csv or .jsonl file."
        )
    return Providers({signal: name})


def _of_items(
    items: Path, signal: str, asked: dict[str, Providers]
) -> tuple[dict[str, Spoken], dict[str, str], dict[str, int]]:
    looks = any(providers[signal].looks_at_images for providers in asked.values())
    documents = read_documents(items, Providers(), looks)
    said: dict[str, Spoken] = {}
    failures: dict[str, int] = {}
    for name, providers in asked.items():
        said[name], done = spoken_of(documents, signal, providers)
        failures |= _failures(name, done)
    return said, {document.document_id: document.prompt for document in documents}, failures


def _of_store(
    signal: str, asked: dict[str, Providers], labels: Sequence[Spoken], sample: int, settings: Settings, now: datetime
) -> tuple[dict[str, Spoken], dict[str, str], dict[str, int]]:
    store = Store.existing(settings.store)
    ids = store.read("decisions", ["item_kind", "item_id", "keep"]).filter("keep", item_kind="conversation")["item_id"]
    kept = conversations_as_released(store).filter(pl.col("conversation_id").is_in(ids.implode()))
    documents = kept["document_id"].unique().to_list()
    labelled = set().union(*labels)
    wanted = [each for each in documents if each in labelled] if labels else drawn(documents, sample, settings.seed)
    if not wanted:
        raise BadInput(
            f"store {settings.store!r} keeps no document to compare; ids of labels are document ids (`curate explain`)"
        )
    said: dict[str, Spoken] = {}
    failures: dict[str, int] = {}
    with writing(settings.store) as held:
        for name, providers in asked.items():
            said[name], done = spoken_in_store(held, kept, signal, providers, wanted, workers=settings.workers, now=now)
            failures |= _failures(name, done)
    loaded = Documents(kept, store.empty("signals/image_text"), store.empty("signals/image_layout"), None).load(wanted)
    return said, {document.document_id: document.prompt for document in loaded}, failures


def _failures(name: str, done: Measured) -> dict[str, int]:
    return {f"{name}: {reason}": count for (_, reason), count in sorted(done.failures.items())}
