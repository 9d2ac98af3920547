"""What of a store must stay out of a release because of the benchmark, its public and its hidden split."""

from dataclasses import dataclass
from functools import cached_property

import polars as pl

from schemas.settings import BenchSettings
from tasks.contamination.documents import Vectors, alike, documents_of
from tasks.contamination.reserve import epoch_of, reserved
from tasks.lookup.facts import Versions, embeddings
from tasks.lookup.released import days
from tasks.lookup.renames import decided_policy
from tasks.tables import Store

GUARD_OVERLAP = 0.5
"""A text that holds half of a benchmark prompt's runs of words is withheld."""
COSINE = 0.9
"""Where the policy has no rule for duplicates."""


@dataclass(frozen=True)
class Alike:
    """Finds prompts of a store that say what others say."""

    store: Store
    versions: Versions

    @cached_property
    def _near(self) -> pl.DataFrame:
        return self.store.read("near_pictures", ["image_a", "image_b"])

    @cached_property
    def _cosine_min(self) -> float:
        policy = decided_policy(self.store)
        return policy.duplicates.prompt_cosine_min if policy and policy.duplicates else COSINE

    def _embedded(self, prompt_ids: pl.Series) -> Vectors:
        return embeddings(self.store, "text_embedding", self.versions, prompt_ids)

    def documents(self, conversations: pl.DataFrame) -> pl.DataFrame:
        """`documents_of` conversations as released, with the pictures as they were taken in: those have hashes."""
        asked = self.store.read("conversations", ["conversation_id", "image_ids"])
        pictured = conversations.drop("image_ids").join(asked, on="conversation_id", maintain_order="left")
        return documents_of(pictured)

    def pairs(self, prompts: pl.DataFrame, documents: pl.DataFrame, overlap_min: float) -> pl.DataFrame:
        """(document_id, other_id) of rows of `documents` that are alike to rows of `prompts` (other_id)."""
        return alike(prompts, documents, self._near, self._embedded, self._cosine_min, overlap_min)


@dataclass(frozen=True)
class Withheld:
    """Ids of kept conversations."""

    bench: frozenset[str]
    """Those that show a prompt of the public split or one that is alike: not in chat, marked in battles."""
    hidden: frozenset[str]
    """Those that show a prompt reserved for the hidden split, or one alike to the split: in nothing."""


def withheld(store: Store, kept: pl.DataFrame, versions: Versions, bench: BenchSettings) -> Withheld:
    """What of `kept` conversations, in the form in which they are released, the benchmark withholds.

    The table `hidden` is as old as the last `sample`. What came in or was let in since, and will be reserved by the
    next one, is withheld too: once it is out it cannot be hidden.
    """
    finder = Alike(store, versions)
    documents = finder.documents(kept)
    public = kept.filter(
        pl.col("conversation_id").is_in(store.read("bench", ["conversation_id"]).to_series().implode())
    )
    hidden = store.read("hidden", ["document_id", "drawn"])
    asked = store.read("conversations", ["conversation_id", "document_id", "day"])
    of_days = days(store)
    anew = reserved(asked, bench, epoch_of(bench, of_days[-1])) if of_days else hidden
    both = pl.concat([hidden.select("document_id"), anew.select("document_id")])
    secret, drawn = (_conversations_on(rows, asked, kept) for rows in (both, hidden.filter("drawn")))
    return Withheld(
        frozenset(_showing(public, kept, documents, finder)),
        frozenset({*secret["conversation_id"], *_showing(drawn, kept, documents, finder)}),
    )


def _conversations_on(prompts: pl.DataFrame, asked: pl.DataFrame, kept: pl.DataFrame) -> pl.DataFrame:
    """Kept conversations on documents as they were taken in."""
    return kept.join(asked.join(prompts, on="document_id", how="semi"), on="conversation_id", how="semi")


def _showing(drawn: pl.DataFrame, kept: pl.DataFrame, documents: pl.DataFrame, finder: Alike) -> set[str]:
    """Kept conversations with a document of `drawn`, or one alike."""
    if drawn.is_empty():
        return set()
    prompts = documents.filter(pl.col("document_id").is_in(drawn["document_id"].implode()))
    found = finder.pairs(prompts, documents, GUARD_OVERLAP)["document_id"]
    shown = pl.concat([prompts["document_id"], found])
    return set(kept.filter(pl.col("document_id").is_in(shown.implode()))["conversation_id"])
