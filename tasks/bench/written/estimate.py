"""What writing the captions and references that a benchmark lacks would cost. Sends nothing."""

from dataclasses import replace

from schemas.asked_model import AskedModel
from schemas.judging import STAND_IN
from schemas.run import Estimate, Prices
from tasks.bench.written.write import caption_gaps, caption_message, reference_gaps, reference_message
from tasks.providers.chat_cost import Count, Sent, chat_cost
from tasks.storage.queries.benches.written_items import providers_of
from tasks.storage.queries.images import StoredImages
from tasks.storage.tables import Store

CAPTION_TOKENS = REFERENCE_TOKENS = 75
"""Expected lengths: VisIT-Bench's single-image sheet has 56 words a caption and 58 a reference in the mean."""


def estimate_writing(
    store: Store, bench: str, writer: AskedModel, hidden: bool, prices: Prices, count: Count
) -> list[Estimate]:
    """Captions, then references, by both ways to call. `hidden`: also of the hidden split.

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
