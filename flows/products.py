"""Facts of the products that the core is given: written and generated benchmarks.

Each function first looks whether the store has the product's tables, so that a plain run imports none of them.
"""

import polars as pl

from tasks.storage.tables import Store


def item_ids(store: Store) -> pl.Series:
    """Conversations that are items of written or generated benchmarks: their prompts are public like drawn ones."""
    return pl.concat(store.read(table, ["item_id"])["item_id"] for table in ("bench_items", "generated_items"))


def hidden_texts(store: Store) -> pl.DataFrame:
    """item_id and text of the captions and references of written benchmarks that no release may hold."""
    if not (store.parts("captions") or store.parts("references")):
        return store.empty("captions", ["item_id", "text"])
    from tasks.bench.written import written_items

    return written_items.hidden_texts(store)
