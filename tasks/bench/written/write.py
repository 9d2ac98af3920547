"""Writes what an item lacks: captions for its instruction, then a reference from captions and instruction alone.

A model's texts are stored as they arrive and never written twice. A call that failed stores nothing and is made again.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from schemas.asked_model import AskedModel
from schemas.judging import STAND_IN
from schemas.row import Row
from schemas.written import Caption, Reference, Split, WrittenBy
from tasks.prompts import load_prompt, untrusted
from tasks.providers.batch_run import BatchRun
from tasks.providers.capabilities import BatchQueue, ChatMessage, ChatModel, Failed
from tasks.providers.chat import chat_model
from tasks.runtime.parallel import map_as_done
from tasks.runtime.progress import progress
from tasks.storage.parts import append_incrementally
from tasks.storage.queries.benches.written_items import (
    ItemForJudging,
    captions_id,
    items_for_judging,
    providers_of,
)
from tasks.storage.queries.images import StoredImages
from tasks.storage.queries.signals import Versions, signal_values
from tasks.storage.tables import Store

_CAPTION, _REFERENCE = "written/caption", "written/reference"
STAND_IN_NOTE = (
    "the embedded writer is a stand-in: it says what was measured in the pictures, and its references repeat that; a "
    "release holds none of its texts"
)
_INSUFFICIENT = "INSUFFICIENT"
_SHIPPED = "embedded-writer1"
_FLAT = 0.35
"""Share of one flat colour from which a picture is called a drawing or page."""
_READ_CHARACTERS_MAX = 1500


class Gap(NamedTuple):
    """One image of an item without a caption."""

    item: ItemForJudging
    place: int


@dataclass
class Done:
    """What was written."""

    counts: Counter[str] = field(default_factory=Counter)
    """captions and references."""
    calls: Counter[str] = field(default_factory=Counter)
    """Calls by model."""
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Failed calls by model and reason."""


Results = Iterator[Row | Failed]
Writer = Callable[[Gap], str | Failed]
Answerer = Callable[[ItemForJudging], str | Failed]


def _items(store: Store, bench: str, hidden: bool) -> list[ItemForJudging]:
    return [item for item in items_for_judging(store, bench) if hidden or item.split is Split.VALIDATION]


def caption_gaps(store: Store, bench: str, hidden: bool = True, anew: bool = False) -> list[Gap]:
    """The images of kept items that have no caption, by item and place; without `hidden`, of the validation split.

    anew: also those that only the stand-in wrote for.
    """
    items = _items(store, bench, hidden)
    by, nobody = providers_of(store, "captions", items), {STAND_IN, None} if anew else {None}
    return [
        Gap(item, place)
        for item in items
        for place in range(len(item.image_ids))
        if by.get(item.item_id, {}).get(place) in nobody
    ]


def reference_gaps(store: Store, bench: str, hidden: bool = True, anew: bool = False) -> list[ItemForJudging]:
    """Kept items that have all captions and no reference written from them.

    anew: what the stand-in wrote is no reference, and a model writes none from its captions.
    """
    items = [item for item in _items(store, bench, hidden) if item.captions]
    if not anew:
        return [item for item in items if item.reference is None]
    captions, references = (providers_of(store, table, items) for table in ("captions", "references"))
    sound = [item for item in items if STAND_IN not in captions[item.item_id].values()]
    return [item for item in sound if item.reference is None or references[item.item_id][0] == STAND_IN]


def write_by_model(
    store: Store,
    bench: str,
    asked: AskedModel,
    now: datetime,
    hidden: bool = False,
    batch_hours: float | None = None,
) -> Done:
    """Ask a model for what is missing. It sees the picture for a caption, and no picture for a reference.

    Nothing of the hidden split is sent to it without `hidden`. `batch_hours`: use the vendor's batch API and wait for
    so long; references are written from captions, so they are the second batch.
    """
    model, stored = chat_model(asked), StoredImages(store, "images", "redacted_images")

    def caption(gap: Gap) -> str | Failed:
        image = stored[gap.item.image_ids[gap.place]]
        return _said(model, caption_message(gap), ((image.format, image.bytes),))

    def reference(item: ItemForJudging) -> str | Failed:
        said = _said(model, reference_message(item), ())
        return Failed("captions_insufficient") if isinstance(said, str) and _is_insufficient(said) else said

    by = (caption, reference)
    if batch_hours is None:
        return _write(store, bench, asked.name, asked.version, by, _OneByOne(model.calls_at_once), now, hidden)
    with model.together(store, batch_hours) as queue:
        return _write(store, bench, asked.name, asked.version, by, _Overnight(queue), now, hidden)


class _OneByOne(NamedTuple):
    """Makes calls as they come."""

    calls_at_once: int

    def __call__(self, table: str, work: Callable[[Any], Row | Failed], lacking: Sequence[Any]) -> Results:
        with progress(table, len(lacking)) as advance:
            for result in map_as_done(work, lacking, self.calls_at_once):
                yield result
                advance()


class _Overnight(NamedTuple):
    """Makes calls in batches, whose waiting shows progress itself."""

    queue: BatchQueue

    def __call__(self, table: str, work: Callable[[Any], Row | Failed], lacking: Sequence[Any]) -> Results:
        return BatchRun(self.queue, work, lacking).results()


def _is_insufficient(said: str) -> bool:
    """Whether a reply is the one word for captions that say too little, in any case and with any signs around it."""
    return re.sub(r"\W|_", "", said).upper() == _INSUFFICIENT


def caption_message(gap: Gap) -> str:
    """What a model is sent with one picture."""
    values = {"place": str(gap.place + 1), "pictures": str(len(gap.item.image_ids))}
    return _filled(_CAPTION, values | {"instruction": untrusted(gap.item.instruction)})


def reference_message(item: ItemForJudging) -> str:
    """What a model is sent for a reference: captions, numbered if there are several, and the instruction."""
    numbered = enumerate(map(untrusted, item.captions), 1)
    captions = [f"Picture {n}:\n{text}" if len(item.captions) > 1 else text for n, text in numbered]
    return _filled(_REFERENCE, {"captions": "\n\n".join(captions), "instruction": untrusted(item.instruction)})


def _filled(prompt: str, values: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda name: values[name[1]], load_prompt(prompt).text)


def _said(model: ChatModel, text: str, images: tuple[tuple[str, bytes], ...]) -> str | Failed:
    reply = model.chat([ChatMessage("user", text, images)])
    if isinstance(reply, Failed):
        return reply
    return reply.text.strip() if reply.state == "complete" and reply.text.strip() else Failed(f"answer_{reply.state}")


def write_by_rules(store: Store, bench: str, versions: Versions, now: datetime) -> Done:
    """What ships with the install, a stand-in: a caption says what was measured, a reference repeats the captions."""
    read = dict(signal_values(store, "image_text", versions["image_text"], ["text"]).iter_rows())
    layouts = signal_values(store, "image_layout", versions["image_layout"], ["flat_fraction"])
    flat = dict(layouts.iter_rows())

    def caption(gap: Gap) -> str:
        image_id = gap.item.image_ids[gap.place]
        kind = "A drawing, page or screen" if flat.get(image_id, 0.0) >= _FLAT else "A photograph or painting"
        words = " ".join((read.get(image_id) or "").split())[:_READ_CHARACTERS_MAX]
        return f'{kind}. It reads: "{words}".' if words else f"{kind} without text that can be read."

    def reference(item: ItemForJudging) -> str:
        return " ".join(item.captions)

    return _write(store, bench, STAND_IN, _SHIPPED, (caption, reference), _OneByOne(1), now, hidden=True)


def _write(
    store: Store,
    bench: str,
    provider: str,
    version: str,
    by: tuple[Writer, Answerer],
    calls: _OneByOne | _Overnight,
    now: datetime,
    hidden: bool,
) -> Done:
    """Fill the captions that are missing, then the references of items that have all captions."""
    done, anew = Done(), provider != STAND_IN
    shared: dict[str, Any] = {"written_by": WrittenBy.MODEL, "provider": provider, "written_at": now}

    def made(prompt: str) -> str:
        return version if provider == STAND_IN else f"{version}+{load_prompt(prompt).version}"

    def caption(gap: Gap) -> Row | Failed:
        text = by[0](gap)
        if isinstance(text, Failed):
            return text
        return Caption(**_of(gap.item), place=gap.place, text=text, version=made(_CAPTION), **shared)

    def reference(item: ItemForJudging) -> Row | Failed:
        text = by[1](item)
        if isinstance(text, Failed):
            return text
        of = _of(item)
        return Reference(**of, text=text, captions_id=captions_id(item.captions), version=made(_REFERENCE), **shared)

    _keep(store, "captions", calls("captions", caption, caption_gaps(store, bench, hidden, anew)), provider, done)
    _keep(
        store, "references", calls("references", reference, reference_gaps(store, bench, hidden, anew)), provider, done
    )
    return done


def _of(item: ItemForJudging) -> dict[str, str]:
    return {"item_id": item.item_id, "document_id": item.document_id}


def _keep(store: Store, table: str, results: Results, provider: str, done: Done) -> None:
    """Store texts as they arrive."""
    with append_incrementally(store, table) as keep:
        for result in results:
            done.calls[provider] += 1
            if isinstance(result, Failed):
                done.failures[provider, result.reason] += 1
            else:
                keep([result.model_dump()])
                done.counts[table] += 1
