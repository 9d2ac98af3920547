"""The old place of names that moved."""

import polars as pl

from tasks.bench.contamination import guard
from tasks.bench.written.findings import *  # noqa: F403
from tasks.bench.written.written_items import *  # noqa: F403
from tasks.storage.tables import Store


def public_prompts(store: Store) -> pl.Series:
    """Conversations whose prompts are a benchmark's."""
    items = [store.read(table, ["item_id"])["item_id"] for table in ("bench_items", "generated_items")]
    return guard.public_prompts(store, pl.concat(items))
