"""The prompts of conversations, one row per document, and which of them ask the same thing."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks.bench.contamination.prompt_index import PromptIndex, joined_words
from tasks.storage.queries.kept import with_released_turns
from tasks.storage.queries.released import decided_policy
from tasks.storage.queries.signals import Versions, embeddings
from tasks.storage.tables import Store

Vectors = Mapping[str, npt.NDArray[np.float32]]
Embedded = Callable[[pl.Series], Vectors]
"""Prompt ids -> unit vectors, for those that have one."""
ALIKE_OVERLAP = 0.5
"""Share of a benchmark prompt's runs of four words that a text must hold to be withheld from chat."""
COSINE = 0.9
"""Default of `cosine_min_of`."""
PAIRS_AT_ONCE = 65_536
_ALIKE = {"document_id": pl.String, "other_id": pl.String}


def cosine_min_of(store: Store) -> float:
    """The policy's `prompt_cosine_min` for duplicates: prompts on one image are alike from this cosine on."""
    policy = decided_policy(store)
    return policy.duplicates.prompt_cosine_min if policy and policy.duplicates else COSINE


def original_documents(store: Store, conversations: pl.DataFrame) -> pl.DataFrame:
    """`documents_of` conversations as released, but with image ids from before redaction: only those have hashes.

    Texts of conversations without `turns` are read from the store.
    """
    asked = conversations.sort("tstamp", "conversation_id").unique("document_id", keep="first", maintain_order=True)
    asked = asked if "turns" in asked.columns else with_released_turns(store, asked)
    original = store.read("conversations", ["conversation_id", "image_ids"])
    return documents_of(asked.drop("image_ids").join(original, on="conversation_id", maintain_order="left"))


def documents_of(conversations: pl.DataFrame) -> pl.DataFrame:
    """document_id, prompt_id, prompt (all user messages, separated by blank lines) and image (id of the first, or "").

    One row per document, in the order in which they were first asked.
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
            image=pl.col("image_ids").list.first().fill_null(""),
        )
    )


def alike_in_store(
    store: Store, versions: Versions, prompts: pl.DataFrame, documents: pl.DataFrame, overlap_min: float
) -> pl.DataFrame:
    """`alike` with the near images, embeddings and policy of a store."""
    near = store.read("near_images", ["image_a", "image_b"])

    def embedded(ids: pl.Series) -> Vectors:
        return embeddings(store, "text_embedding", versions, ids)

    return alike(prompts, documents, near, embedded, cosine_min_of(store), overlap_min)


def alike(
    prompts: pl.DataFrame,
    documents: pl.DataFrame,
    near: pl.DataFrame,
    embedded: Embedded,
    cosine_min: float,
    overlap_min: float,
) -> pl.DataFrame:
    """Pairs (document_id, other_id) of a row of `documents` that is alike to a row of `prompts`, which is other_id.

    Two prompts are alike if either
    * they have the same image or near-duplicate images (`near`), and equal words or embeddings with a cosine of at
      least `cosine_min`; or
    * one has at least 13 words and at least `overlap_min` of its runs of four words are in the other, on any image.
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
    """Pairs with the same or near images, or both without one, that have equal words; with images also by cosine."""
    ends = near.select("image_a", "image_b")
    itself = prompts.select(image_a="image", image_b="image").unique()
    both_ways = pl.concat([itself, ends, ends.select(image_a="image_b", image_b="image_a")]).unique()
    nearby = documents.join(both_ways, left_on="image", right_on="image_b", how="semi", maintain_order="left")
    left, right = (frame.with_columns(words=joined_words(frame["prompt"])) for frame in (prompts, nearby))
    left = left.select(other_id="document_id", other_prompt="prompt_id", other_words="words", image_a="image")
    right = right.select("document_id", "prompt_id", "words", image_b="image")
    candidates = left.join(both_ways, on="image_a")
    same = candidates.join(right, left_on=["image_b", "other_words"], right_on=["image_b", "words"])
    compared = candidates.filter(pl.col("image_a") != "").join(right, on="image_b")
    close = compared.filter(_cosines(compared, embedded) >= cosine_min)
    return pl.concat([each.select(_ALIKE.keys()) for each in (same, close)])


def _cosines(pairs: pl.DataFrame, embedded: Embedded) -> pl.Series:
    """Cosine of prompt_id and other_prompt of each row; -1 where one of them has no vector."""
    vectors = embedded(pl.concat([pairs["prompt_id"], pairs["other_prompt"]]).unique().sort())
    found = np.full(pairs.height, -1.0, np.float32)
    if vectors:
        row_of = {prompt: row for row, prompt in enumerate(vectors)}
        matrix = np.stack(list(vectors.values()))
        a, b = (
            pairs[name].replace_strict(row_of, default=-1, return_dtype=pl.Int64).to_numpy()
            for name in ("prompt_id", "other_prompt")
        )
        for start in range(0, len(a), PAIRS_AT_ONCE):
            some = slice(start, start + PAIRS_AT_ONCE)
            cosine = np.einsum("nd,nd->n", matrix[a[some]], matrix[b[some]])
            found[some] = np.where((a[some] >= 0) & (b[some] >= 0), cosine, -1.0)
    return pl.Series(found)
