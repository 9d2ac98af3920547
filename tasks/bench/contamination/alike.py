"""Prompts of conversations, each once, and which of them are alike: what others asked too."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks.bench.contamination.prompt_index import PromptIndex, normalised
from tasks.storage.queries.released import decided_policy
from tasks.storage.queries.signals import Versions, embeddings
from tasks.storage.tables import Store

Vectors = Mapping[str, npt.NDArray[np.float32]]
Embedded = Callable[[pl.Series], Vectors]
"""Prompt ids -> the unit vector of each that has one."""
ALIKE_OVERLAP = 0.5
"""A text that holds half of a benchmark prompt's runs of words is withheld from chat."""
COSINE = 0.9
"""Where the policy has no rule for duplicates."""
PAIRS_AT_ONCE = 65_536
_ALIKE = {"document_id": pl.String, "other_id": pl.String}


@dataclass(frozen=True)
class Alike:
    """Finds prompts of a store that say what others say."""

    store: Store
    versions: Versions

    @cached_property
    def near(self) -> pl.DataFrame:
        """image_a and image_b of all near pictures."""
        return self.store.read("near_pictures", ["image_a", "image_b"])

    @cached_property
    def cosine_min(self) -> float:
        """Prompts on one picture are alike from this cosine of their embeddings on."""
        policy = decided_policy(self.store)
        return policy.duplicates.prompt_cosine_min if policy and policy.duplicates else COSINE

    def documents(self, conversations: pl.DataFrame) -> pl.DataFrame:
        """`documents_of` conversations as released, with the pictures as they were taken in: those have hashes."""
        return documents_of(as_taken_in(self.store, conversations))

    def pairs(self, prompts: pl.DataFrame, documents: pl.DataFrame, overlap_min: float) -> pl.DataFrame:
        """(document_id, other_id) of rows of `documents` that are alike to rows of `prompts` (other_id)."""

        def embedded(ids: pl.Series) -> Vectors:
            return embeddings(self.store, "text_embedding", self.versions, ids)

        return alike(prompts, documents, self.near, embedded, self.cosine_min, overlap_min)


def as_taken_in(store: Store, conversations: pl.DataFrame) -> pl.DataFrame:
    """Conversations as released, with the pictures as they were taken in."""
    asked = store.read("conversations", ["conversation_id", "image_ids"])
    return conversations.drop("image_ids").join(asked, on="conversation_id", maintain_order="left")


def documents_of(conversations: pl.DataFrame) -> pl.DataFrame:
    """document_id, prompt_id, prompt (all user messages, a blank line between) and picture (the first, "" without one).

    One row for each document, in the order in which they were first asked.
    """
    element = pl.element().struct
    asked = pl.col("turns").list.eval(element.field("content").filter(element.field("role") == "user"))
    return (
        conversations.sort("tstamp", "conversation_id")
        .unique("document_id", keep="first", maintain_order=True)
        .select(
            "document_id",
            "prompt_id",
            prompt=asked.list.join("\n\n"),
            picture=pl.col("image_ids").list.first().fill_null(""),
        )
    )


def alike(
    prompts: pl.DataFrame,
    documents: pl.DataFrame,
    near: pl.DataFrame,
    embedded: Embedded,
    cosine_min: float,
    overlap_min: float,
) -> pl.DataFrame:
    """(document_id, other_id) of every row of `documents` that is alike to a row of `prompts`, which is other_id.

    Two prompts are alike when they show the same or a near picture (`near_pictures`) and have equal words or
    embeddings at least `cosine_min` alike, or, whatever they show, when one of at least 13 words is in the other by
    `overlap_min` of its runs of four words.
    """
    found = pl.concat(
        [_by_words(prompts, documents, overlap_min), _by_image(prompts, documents, near, embedded, cosine_min)]
    )
    return found.filter(pl.col("document_id") != pl.col("other_id")).unique().sort("document_id", "other_id")


def _by_words(prompts: pl.DataFrame, documents: pl.DataFrame, overlap_min: float) -> pl.DataFrame:
    found = PromptIndex(prompts["prompt"], overlap_min).find_distinctive(documents["prompt"])
    columns = {
        "document_id": documents["document_id"].gather(found["row"]),
        "other_id": prompts["document_id"].gather(found["prompt"]),
    }
    return pl.DataFrame(columns, schema=_ALIKE)


def _by_image(
    prompts: pl.DataFrame, documents: pl.DataFrame, near: pl.DataFrame, embedded: Embedded, cosine_min: float
) -> pl.DataFrame:
    """Of what shows the same or a near picture, or none at all: equal words, or embeddings that are alike."""
    ends = near.select("image_a", "image_b")
    itself = prompts.select(image_a="picture", image_b="picture").unique()
    both_ways = pl.concat([itself, ends, ends.select(image_a="image_b", image_b="image_a")]).unique()
    shown = documents.join(both_ways, left_on="picture", right_on="image_b", how="semi", maintain_order="left")
    said = [frame.with_columns(words=normalised(frame["prompt"])) for frame in (prompts, shown)]
    left = said[0].select(other_id="document_id", other_prompt="prompt_id", other_words="words", image_a="picture")
    right = said[1].select("document_id", "prompt_id", "words", image_b="picture")
    pictured = left.join(both_ways, on="image_a")
    same = pictured.join(right, left_on=["image_b", "other_words"], right_on=["image_b", "words"])
    unsure = pictured.filter(pl.col("image_a") != "").join(right, on="image_b")
    close = unsure.filter(_cosines(unsure, embedded) >= cosine_min)
    return pl.concat([each.select(_ALIKE.keys()) for each in (same, close)])


def _cosines(pairs: pl.DataFrame, embedded: Embedded) -> pl.Series:
    """Of prompt_id and other_prompt; -1 where one of them has no vector."""
    ids = pl.concat([pairs["prompt_id"], pairs["other_prompt"]]).unique().sort()
    vectors = embedded(ids)
    found = np.full(pairs.height, -1.0, np.float32)
    if vectors:
        known = {prompt: place for place, prompt in enumerate(vectors)}
        matrix = np.stack(list(vectors.values()))
        columns = pairs.select(
            pl.col("prompt_id", "other_prompt").replace_strict(known, default=-1, return_dtype=pl.Int64)
        )
        a, b = (columns[name].to_numpy() for name in columns.columns)
        for start in range(0, len(a), PAIRS_AT_ONCE):
            some = slice(start, start + PAIRS_AT_ONCE)
            cosine = np.einsum("nd,nd->n", matrix[a[some]], matrix[b[some]])
            found[some] = np.where((a[some] >= 0) & (b[some] >= 0), cosine, -1.0)
    return pl.Series(found)
