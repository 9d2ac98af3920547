"""The prompts of conversations, one row per document, and which of them ask the same thing."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks.bench.contamination.prompt_index import RunIndex, pieces, words_of_each
from tasks.storage.content_id import combined_id, id_of, number_of, text_id
from tasks.storage.queries.released import decided_policy
from tasks.storage.queries.signals import StoredVectors, Versions, unload
from tasks.storage.tables import Store

Embedded = Callable[[pl.Series], Mapping[str, npt.NDArray[np.float32]]]
"""Prompt ids -> unit vectors, for those that have one."""
ALIKE_OVERLAP = 0.5
"""Share of a benchmark prompt's runs of four words that a text must hold to be withheld from chat."""
COSINE = 0.9
"""Default of `cosine_min_of`."""
ALIKE_PAIRS_AT_ONCE = 4_096
_ALIKE = {"document_id": pl.String, "other_id": pl.String}
_ASKED = pl.element().filter(pl.element().struct.field("role") == "user").struct.field("content")
# One value is one conversation: the messages of its user as one text, because a prompt is all of them.
_PROMPT = pl.col("turns").list.eval(_ASKED).list.join("\n\n").alias("prompt")


class AskedPrompts:
    """Prompts of documents, one row each: document_id, and the numbers of prompt_id and of the first image, or 0."""

    def __init__(self, about: pl.DataFrame, texts: Callable[[], Iterable[pl.DataFrame]]) -> None:
        """`texts` reads document_id and prompt of each row of `about`, some at a time, in any order."""
        self.about = about.select("document_id", "prompt_id", "image")
        self._texts = texts

    @classmethod
    def of(cls, rows: pl.DataFrame) -> "AskedPrompts":
        """Prompts of documents that are in memory, with `prompt`."""
        numbers = number_of(pl.col("prompt_id")), number_of(pl.col("image")).fill_null(0)
        return cls(rows.with_columns(numbers), lambda: [rows.select("document_id", "prompt")])

    def words(self) -> Iterator[pl.DataFrame]:
        """document_id and the `words` of its prompt, list[str], some at a time; then `about` has a hash of them."""
        hashes = [pl.DataFrame(schema={"document_id": pl.String, "words": pl.UInt64})]
        for texts in self._texts():
            for first, prompts in pieces(texts["prompt"]):
                document_ids = texts["document_id"].slice(first, len(prompts))
                words = words_of_each(prompts)
                hashes.append(pl.DataFrame({"document_id": document_ids, "words": words.list.join(" ").hash()}))
                yield pl.DataFrame({"document_id": document_ids, "words": words})
        without_words = self.about.drop("words", strict=False)
        self.about = without_words.join(pl.concat(hashes), on="document_id", maintain_order="left")


def cosine_min_of(store: Store) -> float:
    """The policy's `prompt_cosine_min` for duplicates: prompts on one image are alike from this cosine on."""
    policy = decided_policy(store)
    return policy.duplicates.prompt_cosine_min if policy and policy.duplicates else COSINE


_RELEASED_DOCUMENTS = """
    -- a row is one conversation that is kept, or a side of a kept battle (a conversation may be dropped as a duplicate
    -- while its vote counts), earliest first: its document as it is released and as it was logged, and the first image
    -- that was logged ('' for none), because only images as they were logged have hashes
    SELECT
        released.conversation_id, released.document_id, released.prompt_id,
        logged.document_id AS logged_document_id, coalesce(logged.image_ids[1], '') AS image
    FROM released
    JOIN conversations AS logged USING (conversation_id)
    SEMI JOIN (
        SELECT item_id AS conversation_id FROM decisions WHERE item_kind = 'conversation' AND keep
        UNION ALL
        SELECT unnest([conversation_a, conversation_b]) AS conversation_id
        FROM battles
        SEMI JOIN (SELECT item_id AS battle_id FROM decisions WHERE item_kind = 'battle' AND keep) AS kept_battles
            USING (battle_id)
    ) AS in_release USING (conversation_id)
    ORDER BY released.tstamp, released.conversation_id
"""
_PROMPTS = """
    -- a row is one of the wanted documents, and its prompt
    SELECT document_id, prompt FROM prompts JOIN wanted USING (conversation_id)
"""


def released_documents(store: Store) -> pl.DataFrame:
    """Every conversation that is kept or is a side of a kept battle, earliest first.

    Columns: conversation_id, document_id, logged_document_id, prompt_id and image. The last two are numbers
    (`number_of`; no image is 0), and `image` is the first one before redaction.
    """
    rows = store.batches(_RELEASED_DOCUMENTS)
    numbers = number_of(pl.col("prompt_id")), number_of(pl.col("image")).fill_null(0)
    return pl.concat(conversations.with_columns(numbers) for conversations in rows)


_CUT = """
    -- a row is the left side of a kept battle whose conversation went on after the vote, and the turns up to the vote
    SELECT conversation_a AS conversation_id, turns_a
    FROM battles
    SEMI JOIN (SELECT item_id AS battle_id FROM decisions WHERE item_kind = 'battle' AND keep) AS kept_battles
        USING (battle_id)
    JOIN (SELECT conversation_id AS conversation_a, num_turns FROM released) AS whole USING (conversation_a)
    WHERE turns_a < num_turns
"""
_UNTIL_VOTE = """
    -- a row is one of the wanted conversations: what was asked up to the vote, as it is released and as it was logged,
    -- the images shown there, and the first image of all ('' for none)
    SELECT
        conversation_id, released.tstamp,
        prompt_of(
            list_slice(released."turns.content", 1, 2 * turns_a), list_slice(released."turns.role", 1, 2 * turns_a)
        ) AS prompt,
        prompt_of(
            list_slice(logged."turns.content", 1, 2 * turns_a), list_slice(logged."turns.role", 1, 2 * turns_a)
        ) AS logged_prompt,
        images_until(released.image_ids, released."turns.images", turns_a) AS image_ids,
        images_until(logged.image_ids, logged."turns.images", turns_a) AS logged_image_ids,
        coalesce(logged.image_ids[1], '') AS image
    FROM released
    JOIN conversations AS logged USING (conversation_id)
    JOIN wanted USING (conversation_id)
"""
_UNTIL_VOTE_COLUMNS: dict[str, pl.DataType | type[pl.DataType]] = {
    "conversation_id": pl.String,
    "tstamp": pl.Datetime("us", "UTC"),
    "prompt": pl.String,
    "logged_prompt": pl.String,
    "image_ids": pl.List(pl.String),
    "logged_image_ids": pl.List(pl.String),
    "image": pl.String,
}
"""Columns of `_UNTIL_VOTE`, for a store without such battles."""


def documents_until_vote(store: Store) -> pl.DataFrame:
    """Prompts of released battles whose conversations went on after the vote: the messages before it.

    Columns as `released_documents`, and the text `prompt`.
    """
    cut_conversations = store.ask(_CUT)
    batches = store.batches(_UNTIL_VOTE, wanted=cut_conversations) if cut_conversations.height else ()
    rows: pl.DataFrame = pl.concat([pl.DataFrame(schema=_UNTIL_VOTE_COLUMNS), *batches]).sort(
        "tstamp", "conversation_id"
    )
    columns: dict[str, list[str]] = {"prompt_id": [], "document_id": [], "logged_document_id": []}
    for row in rows.iter_rows(named=True):
        prompt_id = text_id(row["prompt"])
        columns["prompt_id"].append(prompt_id)
        columns["document_id"].append(combined_id("document", [prompt_id, *row["image_ids"]]))
        logged = [text_id(row["logged_prompt"]), *row["logged_image_ids"]]
        columns["logged_document_id"].append(combined_id("document", logged))
    identified_rows = rows.with_columns(pl.Series(name, ids, dtype=pl.String) for name, ids in columns.items())
    numbers = number_of(pl.col("prompt_id")), number_of(pl.col("image")).fill_null(0)
    of_documents = ("conversation_id", "document_id", "prompt_id", "logged_document_id", "image", "prompt")
    return identified_rows.with_columns(numbers).select(of_documents)


def asked_in_store(store: Store, kept: pl.DataFrame, further: pl.DataFrame | None = None) -> AskedPrompts:
    """The prompts of kept conversations, whose texts are read from the store.

    `kept` has conversation_id, document_id, and numbers of prompt_id and of `image` from before redaction. Of each
    document, its first row counts. `further` are documents that have their `prompt` with them.
    """
    documents = kept.unique("document_id", keep="first", maintain_order=True)
    document_rows = documents.select("conversation_id", "document_id")
    if further is None:
        return AskedPrompts(documents, lambda: store.batches(_PROMPTS, wanted=document_rows))
    further_documents = further.unique("document_id", keep="first", maintain_order=True)
    further_documents = further_documents.join(documents, on="document_id", how="anti", maintain_order="left")
    about = ("document_id", "prompt_id", "image")
    texts = [further_documents.select("document_id", "prompt")]
    return AskedPrompts(
        pl.concat([documents.select(about), further_documents.select(about)]),
        lambda: chain(store.batches(_PROMPTS, wanted=document_rows), texts),
    )


def documents_of(conversations: pl.DataFrame) -> pl.DataFrame:
    """document_id, prompt_id, prompt (all user messages, separated by blank lines) and image (id of the first, or "").

    One row per document, in the order in which they were first asked.
    """
    return (
        conversations.sort("tstamp", "conversation_id")
        .unique("document_id", keep="first", maintain_order=True)
        .select("document_id", "prompt_id", _PROMPT, image=pl.col("image_ids").list.first().fill_null(""))
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
    pairs = pl.concat([by_words, _by_image(prompts.about, documents.about, near, embedded, cosine_min)])
    return pairs.unique().sort("document_id", "other_id")


def _by_words(prompts: AskedPrompts, documents: AskedPrompts, overlap_min: float) -> pl.DataFrame:
    ids_of_prompts = [pl.Series("document_id", [], dtype=pl.String)]

    def words_of_prompts() -> Iterator[pl.Series]:
        for rows in prompts.words():
            ids_of_prompts.append(rows["document_id"])
            yield rows["words"]

    index = RunIndex(words_of_prompts(), overlap_min)
    prompt_ids = pl.concat(ids_of_prompts)
    pairs_of_all = [pl.DataFrame(schema=_ALIKE)]
    for rows in documents.words():
        pairs = index.find(rows["words"])
        document_ids = rows["document_id"].gather(pairs["row"])
        pairs_of_all.append(_of_two(pl.DataFrame([document_ids, prompt_ids.gather(pairs["prompt"]).alias("other_id")])))
    return pl.concat(pairs_of_all)


def _of_two(pairs: pl.DataFrame) -> pl.DataFrame:
    return pairs.filter(pl.col("document_id") != pl.col("other_id"))


def _by_image(
    prompts: pl.DataFrame, documents: pl.DataFrame, near: pl.DataFrame, embedded: Embedded, cosine_min: float
) -> pl.DataFrame:
    """Pairs with the same or near images, or both without one, that have equal words; with images also by cosine."""
    ends = near.select(number_of(pl.col("image_a", "image_b")))
    itself = prompts.select(image_a="image", image_b="image").unique()
    both_ways = pl.concat([itself, ends, ends.select(image_a="image_b", image_b="image_a")]).unique()
    prompt_rows = prompts.select(other_id="document_id", other_prompt="prompt_id", other_words="words", image_a="image")
    candidates = prompt_rows.join(both_ways, on="image_a")
    document_rows = documents.rename({"image": "image_b"})
    equal_words = candidates.join(document_rows, left_on=["image_b", "other_words"], right_on=["image_b", "words"])
    compared = _of_two(candidates.filter(pl.col("image_a") != 0).join(document_rows, on="image_b"))
    close = compared.filter(_cosines(compared, embedded) >= cosine_min)
    return pl.concat(_of_two(pairs.select(_ALIKE.keys())) for pairs in (equal_words, close))


def _cosines(pairs: pl.DataFrame, embedded: Embedded) -> pl.Series:
    """Cosine of prompt_id and other_prompt of each row; -1 where one of them has no vector."""
    id_pairs = pairs.select(pl.col("prompt_id", "other_prompt").map_elements(id_of, return_dtype=pl.String))
    vectors = embedded(pl.concat([id_pairs["prompt_id"], id_pairs["other_prompt"]]).unique().sort())
    cosines = np.full(pairs.height, -1.0, np.float32)
    for start in range(0, pairs.height if vectors else 0, ALIKE_PAIRS_AT_ONCE):
        numbered_pairs = enumerate(id_pairs[start : start + ALIKE_PAIRS_AT_ONCE].iter_rows(), start)
        vector_pairs = [
            (row, vectors[a], vectors[b]) for row, (a, b) in numbered_pairs if a in vectors and b in vectors
        ]
        if vector_pairs:
            rows, one, other = zip(*vector_pairs, strict=True)
            cosines[[*rows]] = np.einsum("nd,nd->n", np.stack(one), np.stack(other))
            unload(one[0])
    return pl.Series(cosines)
