"""The two sides of `curate tags evaluate`: from label files, or asked of providers and models, with their cost."""

import hashlib
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import polars as pl

from flows.commands.options import existing
from schemas.errors import BadInput, known_values
from schemas.run import Estimate, Prices
from schemas.settings import Settings
from schemas.signals import MeasuredOn
from schemas.tables import SIGNAL_ENTRIES
from tasks.prompts import replaced_prompts
from tasks.providers import EMBEDDED, PROVIDERS, Providers, by_model
from tasks.providers.asked_models import read_models
from tasks.providers.capabilities import Document
from tasks.providers.cost import Count
from tasks.review.tags import reviewed_tags
from tasks.runtime.untrusted import one_line
from tasks.signals.documents import Documents, stored_documents
from tasks.signals.loose_files import has_prompts, read_documents, read_made_with, read_tag_labels
from tasks.signals.paid import estimate_tags
from tasks.signals.registry import signal_of
from tasks.signals.run import missing
from tasks.signals.tag_evaluation import Spoken, TagLabels, drawn, labels_of_signal, spoken_in_store, spoken_of
from tasks.storage.content_id import combined_id
from tasks.storage.lock import writing
from tasks.storage.queries.released import kept_conversations
from tasks.storage.tables import Store

_FILES = (".csv", ".jsonl", ".ndjson")
_MODELS = (".yaml", ".yml")
YES_OR_NO = ("categories", "criteria")
"""Signals whose labels are yes or no."""
REVIEWS = "reviews"
"""Names the labels that people gave in `curate review serve`."""


class AskedSide(NamedTuple):
    """A side whose labels come from a provider, or from the model of a models file."""

    name: str
    """Name of the provider or models file, and of the folder of prompts, as estimates and failures show it."""
    providers: Providers


@dataclass
class ComparedLabels:
    """Values of both sides by item and label, and the prompts of the items."""

    tagger: TagLabels
    reference: TagLabels
    prompts: dict[str, str]
    failures: dict[str, int] = field(default_factory=dict)
    """Items without an answer, by `provider: reason`."""
    asked: int = 0
    """Items that taggers were asked about; stored answers are not asked again."""


@dataclass(frozen=True)
class PlannedComparison:
    """Tagger and reference, before anybody is asked."""

    signal: str
    labels: list[Spoken | None]
    """Labels of tagger and of reference from files; None where it is asked."""
    askable: list[AskedSide | None]
    """Tagger and reference where they are to be asked; None where the labels are those of a file."""
    settings: Settings
    documents: Sequence[Document] = ()
    """Documents of a file."""
    kept: pl.DataFrame | None = None
    """Kept conversations of a store; None without one."""
    wanted: Sequence[str] = ()
    """Stored documents that are compared."""
    answers: str = ""
    """Folder for the answers of paid services about documents of files; empty: they are not kept."""
    made_with: frozenset[str] = frozenset()
    """Labelled documents that the embedded rules were made with."""
    seconds: float = 0.0
    """Time in which text and vectors of the images were read for a tagger that does not look at images itself."""

    def costs(self, prices: Prices, count: Count) -> list[Estimate]:
        """The cost of what paid taggers have not answered yet."""
        paid_sides = [side for side in self.askable if side and side.providers.paid([self.signal])]
        estimates = list[Estimate]()
        for side in paid_sides:
            documents = self.documents
            if self.kept is not None:
                store = Store.existing(self.settings.store)
                lacking = missing(store, signal_of(self.signal, side.providers), self.wanted)
                documents = stored_documents(store, self.kept, self.signal, side.providers).load(lacking)
            elif self.answers and (Path(self.answers) / "tables").is_dir():
                document_of = by_answer_id(self.documents)
                lacking = missing(Store.existing(self.answers), signal_of(self.signal, side.providers), document_of)
                documents = [document_of[answer_id] for answer_id in lacking]
            estimates.append(estimate_tags(side.name, documents, self.signal, side.providers, prices, count))
        return estimates

    def sides(self, now: datetime) -> ComparedLabels:
        """Ask, and put the labels of both together."""
        failures, calls = dict[str, int](), Counter[str]()
        tagger, reference = (
            self._labels_from(side, failures, calls, now) if side else labels or {}
            for labels, side in zip(self.labels, self.askable, strict=True)
        )
        documents = self.documents
        if self.kept is not None:
            store = Store.existing(self.settings.store)
            texts = store.empty("signals/image_text"), store.empty("signals/image_layout")
            documents = Documents(self.kept, *texts, None).load(self.wanted)
        return ComparedLabels(
            tagger,
            reference,
            {document.document_id: document.prompt for document in documents},
            failures,
            calls.total(),
        )

    def _labels_from(self, side: AskedSide, failures: dict[str, int], calls: Counter[str], now: datetime) -> Spoken:
        """Labels of a side: its stored answers, and of the documents without one what it says now.

        Answers go into the store, or into the folder of answers for documents of files and paid services.
        """
        ask_and_store = partial(
            spoken_in_store, signal=self.signal, providers=side.providers, workers=self.settings.workers, now=now
        )
        if self.kept is not None:
            with writing(self.settings.store) as store:
                documents = stored_documents(store, self.kept, self.signal, side.providers)
                labels, done = ask_and_store(store, documents.load, document_ids=self.wanted)
        elif self.answers and side.providers.paid([self.signal]):
            document_of = by_answer_id(self.documents)
            with writing(self.answers) as store:
                by_answer, done = ask_and_store(
                    store, lambda answer_ids: [document_of[answer_id] for answer_id in answer_ids],
                    document_ids=list(document_of),
                )  # fmt: skip
            # Documents of equal prompt and images have one answer.
            labels = {
                document.document_id: by_answer[answer_id]
                for document in self.documents
                if (answer_id := answer_id_of(document)) in by_answer
            }
        else:
            labels, done = spoken_of(self.documents, self.signal, side.providers)
        calls.update(done.calls)
        failures |= {f"{side.name}: {reason}": count for (_, reason), count in sorted(done.failures.items())}
        return labels


def sides_to_compare(
    names: Sequence[str], prompts: Sequence[str], signal: str, items: Path | None, sample: int, settings: Settings,
    answers: str = "",
) -> PlannedComparison:  # fmt: skip
    """Tagger and reference, with none, one or two folders of prompts.

    Raises BadInput for sides, a signal or documents that cannot be used.
    """
    signals = [name for name, entry in SIGNAL_ENTRIES.items() if entry.on is MeasuredOn.DOCUMENTS]
    if signal not in signals:
        raise BadInput(f"--signal {known_values(signal, signals)}")
    if settings.store and items:
        raise BadInput("give --store or --documents, not both")
    if len(prompts) > 2:
        raise BadInput(f"--prompts is given {len(prompts)} times; give one folder, or one for each side")
    folders = [*prompts, *prompts, None, None][:2] if len(prompts) < 2 else prompts
    labels = [_labels(name, signal, settings.store) for name in names]
    askable = [
        _asked(signal, name, folder) if of_file is None else None
        for name, folder, of_file in zip(names, folders, labels, strict=True)
    ]
    chosen = PlannedComparison(signal, labels, askable, settings)
    if items:
        looking = [side.providers[signal].looks_at_images for side in askable if side]
        read = read_documents(items, Providers(), any(looking), measured=not all(looking))
        return replace(chosen, documents=read, answers=answers)
    if settings.store:
        return _of_store(chosen, sample)
    if any(askable):
        raise BadInput("a provider needs documents; give --store DIR or --documents FILE")
    return chosen


def are_label_files(names: Sequence[str]) -> bool:
    """Whether all are label files against which one provider is measured; two without prompts are compared instead."""
    files = [Path(name) for name in names if Path(name).suffix in _FILES]
    return len(files) == len(names) and (len(files) != 2 or any(has_prompts(file) for file in files))


def by_answer_id(documents: Iterable[Document]) -> dict[str, Document]:
    """The id under which an answer about a document of a file is kept -> the document."""
    return {answer_id_of(document): document for document in documents}


def answer_id_of(document: Document) -> str:
    """An id of what a tagger is shown: equal prompts with equal images have one id, whichever file they stand in."""
    image_hashes = [hashlib.sha256(content).hexdigest() for _, content in document.images]
    return combined_id("tagged", [document.prompt, *image_hashes])


def labels_to_evaluate(
    files: Sequence[str], prompts: str | None, signal: str, items: Path | None, answers: str, settings: Settings
) -> PlannedComparison:
    """The chosen provider against the labels of some files, on the prompts in these, of `items`, or of a store.

    Raises BadInput for a file, an id or a provider that cannot be used; nobody is asked.
    """
    if signal not in YES_OR_NO:
        raise BadInput(f"--signal {known_values(signal, YES_OR_NO)}")
    labels, file_of = Spoken(), dict[str, str]()
    for name in files:
        for item, own_labels in read_tag_labels(Path(name), labels_of_signal(signal), False).items():
            if item in labels:
                raise BadInput(f"{name!r}: id {item!r} occurs in {file_of[item]!r}, too; give each item one line")
            labels[item], file_of[item] = own_labels, name
    made_with = frozenset().union(*(read_made_with(Path(name)) for name in files))
    side = _asked(signal, settings.providers.get(signal, EMBEDDED), prompts)
    chosen = PlannedComparison(signal, [None, labels], [side, None], settings, answers=answers, made_with=made_with)
    # A document is one prompt of a file, with its images; of those without a label nobody is asked.
    sources = [Path(name) for name in files if has_prompts(Path(name))] + ([items] if items else [])
    if sources:
        looks, began = side.providers[signal].looks_at_images, perf_counter()
        documents = [
            document for file in sources for document in read_documents(file, Providers(), looks, measured=not looks)
        ]
        documents = [document for document in documents if document.document_id in labels]
        _check_known(file_of, {document.document_id for document in documents}, "no prompt in these files")
        return replace(chosen, documents=documents, seconds=0.0 if looks else perf_counter() - began)
    if not settings.store:
        raise BadInput("a provider needs prompts; give them in the files of labels, or --store DIR or --documents FILE")
    chosen = _of_store(chosen, 0)
    _check_known(file_of, set(chosen.wanted), f"no document that store {settings.store!r} keeps")
    return chosen


def _check_known(file_of: Mapping[str, str], document_ids: Container[str], what: str) -> None:
    if unknown := [item for item in file_of if item not in document_ids]:
        raise BadInput(
            f"{file_of[unknown[0]]!r}: {len(unknown):,} of {len(file_of):,} ids are of {what}, such as "
            f"{one_line(unknown[0], 64)!r}; the labels are of another release or store"
        )


def _labels(name: str, signal: str, store: str) -> Spoken | None:
    """Labels of a file, or of people's reviews; None for a side that is asked."""
    if Path(name).suffix in _FILES:
        return read_tag_labels(Path(name), labels_of_signal(signal), signal == "taxonomy")
    if name != REVIEWS:
        return None
    if signal != "categories":
        raise BadInput(f"people review categories only; give a file of labels in place of {REVIEWS!r}")
    reviewed_labels = reviewed_tags(existing(store)) if store else {}
    if not reviewed_labels:
        raise BadInput(f"{REVIEWS!r} needs tags that people reviewed, in --store DIR; see `curate review serve`")
    return reviewed_labels


def _asked(signal: str, name: str, prompts: str | None) -> AskedSide:
    side_name = f"{name} with {prompts}" if prompts else name
    with replaced_prompts(prompts):  # a tagger reads its prompts when it is made
        if Path(name).suffix in _MODELS:
            models = read_models(Path(name))
            if len(models) > 1:
                raise BadInput(f"models file {name!r} names {len(models)} models; give one with one entry")
            return AskedSide(side_name, by_model(signal, models[0]))
        if name not in PROVIDERS[signal] and ":" not in name:
            raise BadInput(
                f"{signal}: unknown provider {known_values(name, PROVIDERS[signal])} Labels are in a .csv or .jsonl "
                "file, models in a .yaml file."
            )
        providers = Providers({signal: name})
        providers[signal]  # makes the tagger while the prompts are replaced
        return AskedSide(side_name, providers)


def _of_store(chosen: PlannedComparison, sample: int) -> PlannedComparison:
    """The comparison on kept documents of the store: those that have labels of a file or of people, else a sample."""
    store = Store.existing(chosen.settings.store)
    kept = kept_conversations(store)
    documents, labels = kept["document_id"].unique().to_list(), [side for side in chosen.labels if side is not None]
    labelled = set().union(*labels)
    seed = chosen.settings.seed
    ids = [document for document in documents if document in labelled] if labels else drawn(documents, sample, seed)
    if not ids:
        raise BadInput(
            f"store {store.root!r} keeps no document to compare; ids of labels are document ids (`curate explain`)"
        )
    return replace(chosen, kept=kept, wanted=ids)
