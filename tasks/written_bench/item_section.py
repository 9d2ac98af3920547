"""The sections of a written item on its page in the explorer of a store: benchmark, captions and reference."""

from collections.abc import Iterator

from schemas.benches.written import PEOPLE
from tasks.release.registered import ShownSection
from tasks.storage.tables import Store
from tasks.written_bench.written_items import current

_WRITTEN_ITEMS = """
    -- a row is one benchmark of which the conversation is an item
    SELECT * FROM bench_items WHERE item_id = $item_id
"""
_FORMS = """
    -- a row is one form of the item: as it was logged, or as a policy redacted it
    SELECT conversation_id AS item_id, document_id FROM conversations WHERE conversation_id = $item_id
    UNION ALL
    SELECT conversation_id AS item_id, document_id FROM redacted_conversations WHERE conversation_id = $item_id
"""


def sections_of_written_item(store: Store, item_id: str) -> Iterator[ShownSection]:
    """A section for each benchmark of which the conversation is an item, or one for a prompt with captions alone."""
    rows = store.ask(_WRITTEN_ITEMS, item_id=item_id)
    forms = store.ask(_FORMS, item_id=item_id)
    captions = current(store, "captions", forms, ["item_id", "place"]).sort("place")
    references = current(store, "references", forms, ["item_id"])
    texts = [(f"Caption of image {row['place'] + 1}", _by(row["provider"]), row["text"]) for row in captions.to_dicts()]
    texts += [("Reference", _by(row["provider"]), row["text"]) for row in references.to_dicts()]
    for row in rows.iter_rows(named=True):
        facts = [("Benchmark", row["bench"]), ("Family", row["family"]), ("Split", row["split"])]
        facts += [("Licences", ", ".join(filter(None, row["licences"]))), ("Taken from", row["origin"])]
        yield ShownSection("Written item", [(name, value) for name, value in facts if value], texts)
    if rows.is_empty() and texts:
        yield ShownSection("Written for this prompt", texts=texts)


def _by(provider: str) -> str:
    return "by people" if provider == PEOPLE else f"by {provider}"
