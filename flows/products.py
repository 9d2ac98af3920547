"""What the core is given of the products: written and generated benchmarks, judges, what people reviewed.

Each function first looks whether the store (or the release) has the product's tables, so that a plain run imports none
of them.
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


def item_findings(store: Store, conversation_ids: pl.Series) -> pl.DataFrame:
    """What is known of conversations as items of written benchmarks, in the order of the ids (`ITEM_COLUMNS`).

    No columns when the store has no such items.
    """
    if not (store.parts("bench_items") or store.parts("references")):
        return pl.DataFrame()
    from tasks.storage.queries.benches import written_items

    return written_items.item_findings(store, conversation_ids)


def item_images(store: Store, bench: str | None = None) -> dict[str, tuple[str, str]]:
    """Image id -> (table, part) of the images that kept items show: those of one written benchmark, or of all."""
    named = [bench] if bench else sorted(set(store.read("bench_items", ["bench"])["bench"]))
    if not named:
        return {}
    from tasks.storage.queries.benches import written_items

    return {image_id: part for name in named for image_id, part in written_items.item_images(store, name).items()}


def validation_texts(store: Store) -> list[str]:
    """The captions and references that a release may hold once they are screened."""
    if not store.parts("captions"):
        return []
    from tasks.storage.queries.benches import written_items

    return written_items.validation_texts(store)


def judge_texts(store: Store) -> pl.DataFrame:
    """item_id, question_id, model and text of the answers and verdicts that `judge_cards` names."""
    if not store.parts("judge_cards"):
        return pl.DataFrame(schema=dict.fromkeys(("item_id", "question_id", "model", "text"), pl.String))
    from tasks.storage.queries.benches import judged

    return judged.released_judge_texts(store)
