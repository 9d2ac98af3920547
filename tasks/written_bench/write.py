"""Writes what an item lacks: captions for its instruction, then a reference from captions and instruction alone.

A model's texts are stored as they arrive and never written twice. A call that failed stores nothing and is made again.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from schemas.asked_model import AskedModel
from schemas.benches.judging import STAND_IN
from schemas.benches.written import Caption, Reference, Split, WrittenBy
from schemas.row import Row
from schemas.run import Estimate, Prices
from tasks.prompts import filled, load_prompt, text_of_prompt, untrusted
from tasks.providers.ask_items import Work, ask_missing, store_results
from tasks.providers.capabilities import BatchQueue, ChatMessage, ChatModel, Failed
from tasks.providers.chat import chat_model
from tasks.providers.cost import Count, Sent, chat_cost
from tasks.storage.queries.signals import StoredImages, Versions, signal_values
from tasks.storage.tables import Store
from tasks.written_bench.written_items import ItemForJudging, captions_id, items_for_judging, providers_of

_CAPTION, _REFERENCE = "written/caption", "written/reference"
STAND_IN_NOTE = (
    "the embedded writer is a stand-in: it says what was measured in the pictures, and its references repeat that; a "
    "release holds none of its texts"
)
_INSUFFICIENT = "INSUFFICIENT"
_STAND_IN_VERSION = "embedded-writer1"
_FLAT = 0.35
"""Share of one flat colour from which a picture is called a drawing or page."""
_READ_CHARACTERS_MAX = 1500

CAPTION_TOKENS = REFERENCE_TOKENS = 75
"""Expected lengths: VisIT-Bench's single-image sheet has 56 words a caption and 58 a reference in the mean."""


class Gap(NamedTuple):
    """One image of an item without a caption."""

    item: ItemForJudging
    place: int


def _items(store: Store, bench: str, hidden: bool) -> list[ItemForJudging]:
    return [item for item in items_for_judging(store, bench) if hidden or item.split is Split.VALIDATION]


def caption_gaps(store: Store, bench: str, hidden: bool = True, over_stand_in: bool = False) -> list[Gap]:
    """Images of kept items that have no caption, by item and place; without `hidden`, of the validation split alone.

    `over_stand_in`: also those that only the stand-in wrote for.
    """
    items = _items(store, bench, hidden)
    writers = providers_of(store, "captions", items)
    not_captioned = {STAND_IN, None} if over_stand_in else {None}
    return [
        Gap(item, place)
        for item in items
        for place in range(len(item.image_ids))
        if writers.get(item.item_id, {}).get(place) in not_captioned
    ]


def reference_gaps(store: Store, bench: str, hidden: bool = True, over_stand_in: bool = False) -> list[ItemForJudging]:
    """Kept items that have all captions and no reference written from them.

    `over_stand_in`: what the stand-in wrote is no reference, and a model writes none from its captions.
    """
    items = [item for item in _items(store, bench, hidden) if item.captions]
    if not over_stand_in:
        return [item for item in items if item.reference is None]
    captions, references = (providers_of(store, table, items) for table in ("captions", "references"))
    captioned = [item for item in items if STAND_IN not in captions[item.item_id].values()]
    return [item for item in captioned if item.reference is None or references[item.item_id][0] == STAND_IN]


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
        return _reply(model, caption_message(gap), ((image.format, image.bytes),))

    def reference(item: ItemForJudging) -> str | Failed:
        reference_text = _reply(model, reference_message(item), ())
        # the one word for captions that say too little, in any case and with any signs around it
        insufficient = isinstance(reference_text, str) and re.sub(r"\W|_", "", reference_text).upper() == _INSUFFICIENT
        return Failed("captions_insufficient") if insufficient else reference_text

    writer = _Writer(asked.name, asked.version, caption, reference, model.calls_at_once)
    with nullcontext() if batch_hours is None else model.together(store, batch_hours) as queue:
        return _write(store, bench, writer, queue, now, hidden)


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


def _reply(model: ChatModel, text: str, images: tuple[tuple[str, bytes], ...]) -> str | Failed:
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

    writer = _Writer(STAND_IN, _STAND_IN_VERSION, caption, lambda item: " ".join(item.captions), 1)
    return _write(store, bench, writer, None, now, hidden=True)


class _Writer(NamedTuple):
    """A model, or the stand-in."""

    name: str
    version: str
    caption: Callable[[Gap], str | Failed]
    reference: Callable[[ItemForJudging], str | Failed]
    calls_at_once: int


def _write(store: Store, bench: str, writer: _Writer, queue: BatchQueue | None, now: datetime, hidden: bool) -> Work:
    """Fill the captions that are missing, then the references of items that have all captions."""
    work, is_model = Work(), writer.name != STAND_IN

    def row(
        kind: Callable[..., Row], text: str | Failed, item: ItemForJudging, prompt: str, **more: Any
    ) -> Row | Failed:
        if isinstance(text, Failed):
            return text
        version = f"{writer.version}+{load_prompt(prompt).version}" if is_model else writer.version
        item_fields = {"item_id": item.item_id, "document_id": item.document_id, "written_by": WrittenBy.MODEL}
        return kind(**item_fields, **more, text=text, version=version, provider=writer.name, written_at=now)

    def caption(gap: Gap) -> Row | Failed:
        return row(Caption, writer.caption(gap), gap.item, _CAPTION, place=gap.place)

    def reference(item: ItemForJudging) -> Row | Failed:
        return row(Reference, writer.reference(item), item, _REFERENCE, captions_id=captions_id(item.captions))

    def fill(table: str, write: Callable[[Any], Row | Failed], lacking: Sequence[Any]) -> None:
        written = ask_missing(table, write, lacking, writer.calls_at_once, queue)
        store_results(store, table, written, writer.name, work, lambda _: table)

    fill("captions", caption, caption_gaps(store, bench, hidden, over_stand_in=is_model))
    fill("references", reference, reference_gaps(store, bench, hidden, over_stand_in=is_model))
    return work


def estimate_writing(
    store: Store, bench: str, writer: AskedModel, hidden: bool, prices: Prices, count: Count
) -> list[Estimate]:
    """Estimated cost of missing captions, then references, by both ways to call. `hidden`: also of the hidden split.

    References are also counted of items that lack a caption now, as if all were written, of the expected length.
    """
    gaps, stored = (
        caption_gaps(store, bench, hidden, over_stand_in=True),
        StoredImages(store, "images", "redacted_images"),
    )
    captions: list[Sent] = []
    for gap in gaps:
        image = stored[gap.item.image_ids[gap.place]]
        captions.append((f"{writer.system}\n{caption_message(gap)}", ((image.format, image.bytes),)))
    references = [(reference_message(item), 0) for item in reference_gaps(store, bench, hidden, over_stand_in=True)]
    waiting = {gap.item.item_id: gap.item for gap in gaps}
    writers = providers_of(store, "references", list(waiting.values()))
    for item in waiting.values():
        if item.reference is None or writers[item.item_id][0] == STAND_IN:
            assumed = len(item.image_ids)
            references.append((reference_message(replace(item, captions=[""] * assumed)), assumed * CAPTION_TOKENS))
    texts: list[Sent] = [(f"{writer.system}\n{text}", ()) for text, _ in references]
    to_come = sum(tokens for _, tokens in references)
    return [
        *chat_cost(writer, f"captions by {writer.name}", captions, CAPTION_TOKENS, prices, count),
        *chat_cost(writer, f"references by {writer.name}", texts, REFERENCE_TOKENS, prices, count, to_come),
    ]
