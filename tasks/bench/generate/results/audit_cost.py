"""What an audit would call and cost, before anything is sent."""

from collections.abc import Collection, Sequence

from schemas.asked_model import AskedModel
from schemas.generated_results import AuditMode
from schemas.run import Estimate, Prices
from tasks.bench.generate.results.audit import audited, images_of, unasked
from tasks.providers.chat_cost import Count, chat_cost
from tasks.storage.queries.images import StoredImages
from tasks.storage.tables import Store

ANSWER_TOKENS = 20
"""Expected length of an answer: a letter, and a few words around it."""


def estimate_audit(
    store: Store, bench: str, models: Sequence[AskedModel], modes: Collection[AuditMode], prices: Prices, count: Count
) -> list[Estimate]:
    """One row for each model that is not embedded and lacks answers. Raises BadInput without kept items."""
    items, descriptions = audited(store, bench)
    images, found = StoredImages(store, "images", "redacted_images"), list[Estimate]()
    for asked in models:
        wanted = unasked(store, items, descriptions, asked, modes) if asked.vendor != "embedded" else []
        if wanted:
            texts = [(f"{asked.system}\n{again.prompt}", images_of(images, again)) for again in wanted]
            # audits have no batch
            found += chat_cost(asked, f"audit of {asked.name}", texts, ANSWER_TOKENS, prices, count)[:1]
    return found
