"""The benchmark's draws: which prompts the public and the hidden split have now, and the name of a draw."""

import polars as pl

from schemas.errors import BadInput
from tasks.storage.content_id import combined_id
from tasks.storage.queries.kept import kept_conversations
from tasks.storage.tables import Store

HIDDEN = "hidden-"
"""Start of the name of a draw whose prompts, answers and verdicts never leave the store."""


def drawn_prompts(store: Store, hidden: bool) -> pl.DataFrame:
    """Kept prompts of a split as they would be released, with `question_id`; raises BadInput when one is not kept."""
    kept = kept_conversations(store)
    return _hidden(store, kept) if hidden else _public(store, kept)


def draw_name(drawn: pl.DataFrame, hidden: bool) -> str:
    """Name of a draw: a hash of its prompts."""
    ids = drawn.select("question_id", "document_id").sort("question_id")
    name = combined_id("draw", (name for row in ids.iter_rows() for name in row))[:12]
    return f"{HIDDEN if hidden else ''}{name}"


def _public(store: Store, kept: pl.DataFrame) -> pl.DataFrame:
    bench = store.read("bench", ["conversation_id"])
    drawn = kept.join(bench, on="conversation_id").rename({"conversation_id": "question_id"})
    if drawn.height < bench.height:
        raise BadInput(
            f"store {store.root!r}: {bench.height - drawn.height:,} prompts of its benchmark are not kept any more; "
            "draw it again with `curate sample`"
        )
    return drawn


def _hidden(store: Store, kept: pl.DataFrame) -> pl.DataFrame:
    """Kept prompts of the hidden split, each of the first conversation that has it."""
    drawn = store.read("hidden").filter("drawn").select(asked_id="document_id")  # before redaction
    asked = store.read("conversations", ["conversation_id", "document_id"]).rename({"document_id": "asked_id"})
    rows = kept.join(asked, on="conversation_id").join(drawn, on="asked_id").sort("tstamp", "conversation_id")
    first = rows.unique("asked_id", keep="first", maintain_order=True)
    return first.rename({"conversation_id": "question_id"})
