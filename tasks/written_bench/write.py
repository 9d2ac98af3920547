"""Writes what an item lacks: captions for its instruction, then a reference from captions and instruction alone.

A model's texts are stored as they arrive and never written twice. A call that failed stores nothing and is made again.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from schemas.asked_model import AskedModel
from schemas.benches.judging import STAND_IN
from schemas.benches.written import Caption, Reference, Split, WrittenBy
from schemas.row import Row
from schemas.run import Estimate, Prices
from tasks.prompts import filled, load_prompt, text_of_prompt, untrusted
from tasks.providers.ask_items import BatchRun, Work, ask_each, store_results
from tasks.providers.capabilities import BatchQueue, ChatMessage, ChatModel, Failed
from tasks.providers.chat import chat_model
from tasks.providers.cost import Count, Sent, chat_cost
from tasks.storage.queries.images import StoredImages
from tasks.storage.queries.signals import Versions, signal_values
from tasks.storage.tables import Store
from tasks.written_bench.written_items import ItemForJudging, captions_id, items_for_judging, providers_of

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

CAPTION_TOKENS = REFERENCE_TOKENS = 75
"""Expected lengths: VisIT-Bench's single-image sheet has 56 words a caption and 58 a reference in the mean."""


class Gap(NamedTuple):
    """One image of an item without a caption."""

    item: ItemForJudging
    place: int


Results = Iterator[Row | Failed]
Calls = Callable[[str, Callable[[Any], Row | Failed], Sequence[Any]], Results]
"""(table, work on one gap, gaps) -> results as they come."""
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
    store: Store, bench: str, asked: AskedModel, now: datetime, hidden: bool = False, batch_hours: float | None = None
) -> Work:
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
        return _write(store, bench, asked.name, asked.version, by, _one_by_one(model.calls_at_once), now, hidden)
    with model.together(store, batch_hours) as queue:
        return _write(store, bench, asked.name, asked.version, by, partial(_batched, queue), now, hidden)


def _one_by_one(calls_at_once: int) -> Calls:
    return lambda table, write, lacking: ask_each(table, write, lacking, calls_at_once)


def _batched(queue: BatchQueue, _: str, write: Callable[[Any], Row | Failed], lacking: Sequence[Any]) -> Results:
    """Makes calls in batches, whose waiting shows progress itself."""
    return BatchRun(queue, write, lacking).results()


def _is_insufficient(said: str) -> bool:
    """Whether a reply is the one word for captions that say too little, in any case and with any signs around it."""
    return re.sub(r"\W|_", "", said).upper() == _INSUFFICIENT


def caption_message(gap: Gap) -> str:
    """The message that goes with one picture."""
    values = {"place": str(gap.place + 1), "pictures": str(len(gap.item.image_ids))}
    return filled(text_of_prompt(_CAPTION), values | {"instruction": untrusted(gap.item.instruction)})


def reference_message(item: ItemForJudging) -> str:
    """The message for a reference: captions, numbered if there are several, and the instruction."""
    numbered = enumerate(map(untrusted, item.captions), 1)
    captions = [f"Picture {n}:\n{text}" if len(item.captions) > 1 else text for n, text in numbered]
    return filled(
        text_of_prompt(_REFERENCE), {"captions": "\n\n".join(captions), "instruction": untrusted(item.instruction)}
    )


def _said(model: ChatModel, text: str, images: tuple[tuple[str, bytes], ...]) -> str | Failed:
    reply = model.chat([ChatMessage("user", text, images)])
    if isinstance(reply, Failed):
        return reply
    return reply.text.strip() if reply.state == "complete" and reply.text.strip() else Failed(f"answer_{reply.state}")


def write_by_rules(store: Store, bench: str, versions: Versions, now: datetime) -> Work:
    """Write as the stand-in does: a caption says what was measured, a reference repeats the captions."""
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

    return _write(store, bench, STAND_IN, _SHIPPED, (caption, reference), _one_by_one(1), now, hidden=True)


def _write(
    store: Store,
    bench: str,
    provider: str,
    version: str,
    by: tuple[Writer, Answerer],
    calls: Calls,
    now: datetime,
    hidden: bool,
) -> Work:
    """Fill the captions that are missing, then the references of items that have all captions."""
    work, anew = Work(), provider != STAND_IN
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

    captions = calls("captions", caption, caption_gaps(store, bench, hidden, anew))
    store_results(store, "captions", captions, provider, work, lambda _: "captions")
    references = calls("references", reference, reference_gaps(store, bench, hidden, anew))
    store_results(store, "references", references, provider, work, lambda _: "references")
    return work


def _of(item: ItemForJudging) -> dict[str, str]:
    return {"item_id": item.item_id, "document_id": item.document_id}


def estimate_writing(
    store: Store, bench: str, writer: AskedModel, hidden: bool, prices: Prices, count: Count
) -> list[Estimate]:
    """Estimated cost of missing captions, then references, by both ways to call. `hidden`: also of the hidden split.

    References are also counted of items that lack a caption now, as if all were written, of the expected length.
    """
    gaps, stored = caption_gaps(store, bench, hidden, anew=True), StoredImages(store, "images", "redacted_images")
    captions: list[Sent] = []
    for gap in gaps:
        image = stored[gap.item.image_ids[gap.place]]
        captions.append((f"{writer.system}\n{caption_message(gap)}", ((image.format, image.bytes),)))
    references = [(reference_message(item), 0) for item in reference_gaps(store, bench, hidden, anew=True)]
    waiting = {gap.item.item_id: gap.item for gap in gaps}
    by = providers_of(store, "references", list(waiting.values()))
    for item in waiting.values():
        if item.reference is None or by[item.item_id][0] == STAND_IN:
            assumed = len(item.image_ids)
            references.append((reference_message(replace(item, captions=[""] * assumed)), assumed * CAPTION_TOKENS))
    texts: list[Sent] = [(f"{writer.system}\n{text}", ()) for text, _ in references]
    to_come = sum(tokens for _, tokens in references)
    return [
        *chat_cost(writer, f"captions by {writer.name}", captions, CAPTION_TOKENS, prices, count),
        *chat_cost(writer, f"references by {writer.name}", texts, REFERENCE_TOKENS, prices, count, to_come),
    ]
