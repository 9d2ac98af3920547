"""More like this: how close every item of a store is to one of them, by the stored vectors of prompts and images.

In: a store, the versions of its signals, the listing. Out: `Closeness`, the cosine of each row to a given one, by
exact products. Vectors are those of documents (`storage/queries/documents.py`): a prompt with its images.
"""

from functools import cached_property

import numpy as np
import polars as pl

from schemas.settings import TopicSettings
from tasks.storage.queries.documents import embedded_documents
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store

NEAREST = 200
"""Rows that are shown as alike, nearest first."""
_DOCUMENTS = """
    -- a row is one conversation, or a battle by its left side, and the prompt and images by which it is compared
    SELECT conversation_id AS id, prompt_id, image_ids FROM conversations
    UNION ALL
    SELECT battle_id AS id, prompt_id, image_ids
    FROM battles JOIN conversations ON conversation_id = conversation_a
"""


class Closeness:
    """Cosines between the items of a store. The first one reads all vectors into a temporary file."""

    def __init__(self, store: Store, versions: Versions) -> None:
        """`versions` names those of `text_embedding` and `image_embedding`; without them nothing is close."""
        self._store, self._versions = store, versions

    @cached_property
    def _placed(self) -> tuple[pl.DataFrame, np.ndarray[tuple[int, int], np.dtype[np.float32]]]:
        """Rows of `id` and `row`, its place in the matrix; the matrix, float32 (n, dimension) of unit length."""
        items = pl.concat(self._store.batches(_DOCUMENTS))
        pairs = items.select("prompt_id", "image_ids").unique(maintain_order=True)
        embedded, matrix = embedded_documents(self._store, pairs, self._versions, TopicSettings(), joint=False)
        rows = embedded.select("prompt_id", "image_ids").with_row_index("row")
        return items.join(rows, on=["prompt_id", "image_ids"]).select("id", "row").unique("id"), matrix

    def to(self, item_id: str, listing: pl.DataFrame) -> pl.Series | None:
        """Float32 (rows of the listing,): cosine of each to the item; null without a vector, and for the item itself.

        None when the item has no vector. Raises BadInput when stored vectors have several lengths.
        """
        ids, matrix = self._placed
        item = ids.filter(id=item_id)
        if item.is_empty():
            return None
        cosines = matrix @ np.array(matrix[item["row"][0]])
        places = self._places(listing)
        values = np.where(places >= 0, cosines[np.maximum(places, 0)], np.nan).astype(np.float32)
        values[(listing["id"] == item_id).to_numpy()] = np.nan
        return pl.Series("cosine", values).fill_nan(None)

    def _places(self, listing: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """int64 (rows of the listing,): the row of the matrix that each has, -1 without one; made once a listing."""
        placed = self._rows_of
        if placed is None or placed[0] is not listing:
            rows = listing.select("id").join(self._placed[0], on="id", how="left", maintain_order="left")["row"]
            placed = self._rows_of = listing, rows.cast(pl.Int64).fill_null(-1).to_numpy()
        return placed[1]

    _rows_of: tuple[pl.DataFrame, np.ndarray[tuple[int], np.dtype[np.int64]]] | None = None
    """A listing and its rows, replaced together: requests of several threads ask for them."""
