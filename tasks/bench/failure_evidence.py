"""Evidence on prompts that people saw fail: kept votes, labels of the tagger, safety, and types that people gave."""

import polars as pl

from schemas.review import QueueName
from schemas.tags import Categories, Taxonomy
from tasks.storage.queries.released import battles_as_released
from tasks.storage.queries.signals import Versions, signal_values
from tasks.storage.queries.unsafe import unsafe_documents
from tasks.storage.reviews import reviews_of
from tasks.storage.tables import Store

_TAGGER = "failure_types"
"""Signal of a tagger that is asked for the type."""
_ASKED = pl.element().filter(pl.element().struct.field("role") == "user").struct.field("content")


def kept_battles(store: Store, kept: pl.DataFrame) -> pl.DataFrame:
    """Kept battles under released names, by time, with the `document_id` of their left side. `kept`: conversations."""
    decided = store.read("decisions", ["item_kind", "item_id", "keep"]).filter("keep", item_kind="battle")
    battles = battles_as_released(store).join(decided.select(battle_id="item_id"), on="battle_id", how="semi")
    asked = kept.select("document_id", conversation_a="conversation_id")
    return battles.sort("tstamp", "battle_id").join(asked, on="conversation_a", maintain_order="left")


def described(store: Store, kept: pl.DataFrame, failures: pl.DataFrame, versions: Versions) -> pl.DataFrame:
    """`failures` with their prompt, the columns of categories and taxonomy, and `unsafe`.

    Unsafe: moderation flags a message of a kept conversation on the prompt or did not measure one, or a rule about
    safety fired there and only tagged it.
    """
    on_them = kept.filter(pl.col("document_id").is_in(failures["document_id"].implode()))
    asked = on_them.select("document_id", prompt=pl.col("turns").list.eval(_ASKED).list.join("\n\n"))
    known = failures.join(asked.unique("document_id", keep="first"), on="document_id", how="left")
    for signal, columns in (("categories", Categories), ("taxonomy", Taxonomy)):
        values = signal_values(store, signal, versions[signal], list(columns.model_fields), failures["document_id"])
        known = known.join(values, left_on="document_id", right_on="content_id", how="left", maintain_order="left")
    unsafe = unsafe_documents(store, on_them, versions)
    return known.with_columns(unsafe=pl.col("document_id").is_in(unsafe.implode()))


def said_by_tagger(store: Store, failures: pl.DataFrame, versions: Versions) -> pl.DataFrame:
    """`failures` with `tagger` and `tagged`: the tagger's name and its type, null where not asked or undecided.

    Without a chosen tagger the columns are missing.
    """
    version = versions.get(_TAGGER)
    if version is None:
        return failures
    said = signal_values(store, _TAGGER, version, ["failure_type", "provider"], failures["document_id"])
    said = said.select(document_id="content_id", tagged="failure_type", tagger="provider")
    return failures.join(said, on="document_id", how="left", maintain_order="left")


def types_of_reviewers(store: Store) -> pl.DataFrame:
    """document_id and failure_type of the failures that people decided; the last verdict counts."""
    given = reviews_of(store).filter(queue=QueueName.FAILURES.value).sort("reviewed_at", maintain_order=True)
    return given.unique("item_id", keep="last").select(document_id="item_id", failure_type="verdict")
