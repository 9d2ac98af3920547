"""The prompts of conversations, one row per document, and which of them ask the same thing."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks.bench.contamination.prompt_index import RunIndex, pieces, words_of_each
from tasks.storage.content_id import id_of, number_of
from tasks.storage.queries.released import decided_policy, kept_rows
from tasks.storage.queries.signals import StoredVectors, Versions, unload
from tasks.storage.tables import Store

Embedded = Callable[[pl.Series], Mapping[str, npt.NDArray[np.float32]]]
"""Prompt ids -> unit vectors, for those that have one."""
ALIKE_OVERLAP = 0.5
"""Share of a benchmark prompt's runs of four words that a text must hold to be withheld from chat."""
COSINE = 0.9
"""Default of `cosine_min_of`."""
PAIRS_AT_ONCE = 4_096
_ALIKE = {"document_id": pl.String, "other_id": pl.String}
_ASKED = pl.element().filter(pl.element().struct.field("role") == "user").struct.field("content")
_SAID = ["conversation_id", "turns.list.element.role", "turns.list.element.content"]
PROMPT = pl.col("turns").list.eval(_ASKED).list.join("\n\n").alias("prompt")
"""All user messages of a conversation, separated by blank lines."""


class AskedPrompts:
    """Prompts of documents, one row each: document_id, and the numbers of prompt_id and of the first image, or 0."""

    def __init__(self, about: pl.DataFrame, texts: Callable[[], Iterable[pl.Series]]) -> None:
        """`texts` reads the prompt of each row of `about`, in order, some at a time."""
        self.about = about.select("document_id", "prompt_id", "image")
        self._texts = texts

    @classmethod
    def of(cls, rows: pl.DataFrame) -> "AskedPrompts":
        """Prompts of documents that are in memory, with `prompt`."""
        numbers = number_of(pl.col("prompt_id")), number_of(pl.col("image")).fill_null(0)
        return cls(rows.with_columns(numbers), lambda: [rows["prompt"]])

    def words(self) -> Iterator[pl.Series]:
        """The words of each prompt, list[str], some at a time; then `about` has `words`, a hash of them."""
        hashes = [pl.Series("words", [], dtype=pl.UInt64)]
        for texts in self._texts():
            for _, some in pieces(texts):
                listed = words_of_each(some)
                hashes.append(listed.list.join(" ").hash())
                yield listed
        self.about = self.about.with_columns(words=pl.concat(hashes))


def cosine_min_of(store: Store) -> float:
    """The policy's `prompt_cosine_min` for duplicates: prompts on one image are alike from this cosine on."""
    policy = decided_policy(store)
    return policy.duplicates.prompt_cosine_min if policy and policy.duplicates else COSINE


def original_documents(store: Store, conversations: pl.DataFrame) -> pl.DataFrame:
    """`documents_of` conversations as released, but with image ids from before redaction: only those have hashes."""
    original = store.read("conversations", ["conversation_id", "image_ids"])
    return documents_of(conversations.drop("image_ids").join(original, on="conversation_id", maintain_order="left"))


def asked_in_store(store: Store, kept: pl.DataFrame) -> AskedPrompts:
    """The prompts of kept conversations, whose texts are read from the store.

    `kept` has `place`, as `kept_rows` takes it, and `image` from before redaction. Earlier ones come first.
    """
    first = kept.unique("document_id", keep="first", maintain_order=True).sort("place")
    places = first["place"].to_numpy()
    return AskedPrompts(first, lambda: (some.select(PROMPT)["prompt"] for some in kept_rows(store, places, _SAID)))


def documents_of(conversations: pl.DataFrame) -> pl.DataFrame:
    """document_id, prompt_id, prompt (all user messages, separated by blank lines) and image (id of the first, or "").

    One row per document, in the order in which they were first asked.
    """
    return (
        conversations.sort("tstamp", "conversation_id")
        .unique("document_id", keep="first", maintain_order=True)
        .select("document_id", "prompt_id", PROMPT, image=pl.col("image_ids").list.first().fill_null(""))
    )


def alike_in_store(
    store: Store, versions: Versions, prompts: AskedPrompts, documents: AskedPrompts, overlap_min: float
) -> pl.DataFrame:
    """`alike` with the near images, embeddings and policy of a store."""
    near = store.read("near_images", ["image_a", "image_b"])
    return alike(prompts, documents, near, embedded_in(store, versions), cosine_min_of(store), overlap_min)


def embedded_in(store: Store, versions: Versions) -> Embedded:
    """Embeddings of prompts as a store has them."""
    return lambda ids: StoredVectors(store, "text_embedding", versions, ids).all()


def alike(
    prompts: AskedPrompts,
    documents: AskedPrompts,
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
    if prompts.about.is_empty():
        return pl.DataFrame(schema=_ALIKE)
    by_words = _by_words(prompts, documents, overlap_min)
    found = pl.concat([by_words, _by_image(prompts.about, documents.about, near, embedded, cosine_min)])
    return found.unique().sort("document_id", "other_id")


def _by_words(prompts: AskedPrompts, documents: AskedPrompts, overlap_min: float) -> pl.DataFrame:
    index, first = RunIndex(prompts.words(), overlap_min), 0
    found = [pl.DataFrame(schema=_ALIKE)]
    for listed in documents.words():
        pairs = index.find(listed)
        document = documents.about["document_id"].slice(first, len(listed)).gather(pairs["row"])
        both = pl.DataFrame([document, prompts.about["document_id"].gather(pairs["prompt"]).alias("other_id")])
        found.append(_of_two(both))
        first += len(listed)
    return pl.concat(found)


def _of_two(pairs: pl.DataFrame) -> pl.DataFrame:
    return pairs.filter(pl.col("document_id") != pl.col("other_id"))


def _by_image(
    prompts: pl.DataFrame, documents: pl.DataFrame, near: pl.DataFrame, embedded: Embedded, cosine_min: float
) -> pl.DataFrame:
    """Pairs with the same or near images, or both without one, that have equal words; with images also by cosine."""
    ends = near.select(number_of(pl.col("image_a", "image_b")))
    itself = prompts.select(image_a="image", image_b="image").unique()
    both_ways = pl.concat([itself, ends, ends.select(image_a="image_b", image_b="image_a")]).unique()
    left = prompts.select(other_id="document_id", other_prompt="prompt_id", other_words="words", image_a="image")
    candidates = left.join(both_ways, on="image_a")
    right = documents.rename({"image": "image_b"})
    same = candidates.join(right, left_on=["image_b", "other_words"], right_on=["image_b", "words"])
    compared = _of_two(candidates.filter(pl.col("image_a") != 0).join(right, on="image_b"))
    close = compared.filter(_cosines(compared, embedded) >= cosine_min)
    return pl.concat(_of_two(each.select(_ALIKE.keys())) for each in (same, close))


def _cosines(pairs: pl.DataFrame, embedded: Embedded) -> pl.Series:
    """Cosine of prompt_id and other_prompt of each row; -1 where one of them has no vector."""
    asked = pairs.select(pl.col("prompt_id", "other_prompt").map_elements(id_of, return_dtype=pl.String))
    vectors = embedded(pl.concat([asked["prompt_id"], asked["other_prompt"]]).unique().sort())
    found = np.full(pairs.height, -1.0, np.float32)
    for start in range(0, pairs.height if vectors else 0, PAIRS_AT_ONCE):
        some = enumerate(asked[start : start + PAIRS_AT_ONCE].iter_rows(), start)
        known = [(row, vectors[a], vectors[b]) for row, (a, b) in some if a in vectors and b in vectors]
        if known:
            rows, one, other = zip(*known, strict=True)
            found[[*rows]] = np.einsum("nd,nd->n", np.stack(one), np.stack(other))
            unload(one[0])
    return pl.Series(found)
