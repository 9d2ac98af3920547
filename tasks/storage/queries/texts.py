"""Texts on which signals are measured: which of them lack one, and what they say.

In: a store, which of its texts are meant (`Texts`), and signals with their versions. Out: frames of content ids, of
what they lack and of texts, from the views `text_ids` and `texts` of `storage/views.sql`. A new place of a text is a
SELECT in `texts` and, for each form and kind, one in `text_ids`; a new kind is a value of `MeasuredOn`, too.
"""

from collections.abc import Iterator
from datetime import date
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from schemas.signals import MeasuredOn
from tasks.storage.queries.released import require_redactions
from tasks.storage.queries.signals import Versions, lacking_ids, versions_in_use
from tasks.storage.tables import Store

TEXTS_AT_ONCE = 2_048
"""Conversations with their texts that a question gives at a time."""


class ConversationForm(StrEnum):
    """ConversationForm of conversations, as in the view `forms`."""

    LOGGED = "logged"
    """Conversations as they were logged."""
    KEPT = "kept"
    """Conversations as they are released, of those that the first pass of the policy keeps."""
    REDACTED = "redacted"
    """Conversations as each policy redacted them."""


class Texts(NamedTuple):
    """A choice among the texts of a store; it holds none of them."""

    form: ConversationForm
    kind: MeasuredOn
    """Messages, assistant messages or prompts; or images, for what was read in them (OCR)."""
    since: date | None = None
    """First day of their logs; None for no bound. With a bound, texts without a day are not meant."""
    until: date | None = None
    """Last day."""


_TEXT_IDS = """
    -- a row is one place of a text of this form and kind that was logged on these days
    SELECT content_id
    FROM text_ids
    WHERE form = $form AND kind = $kind
        AND coalesce(day >= $since, $since IS NULL) AND coalesce(day <= $until, $until IS NULL)
"""
_DISTINCT_TEXT_IDS = f"""
    -- a row is one text of this form and kind that was logged on these days
    SELECT DISTINCT content_id FROM ({_TEXT_IDS}) WHERE content_id IS NOT NULL
"""  # noqa: S608 - a query of our own
_WITH_TEXTS = """
    -- a row is one place of a wanted text, with the number of its row in the frame `wanted_ids`
    SELECT number, text FROM texts JOIN wanted_ids USING (content_id) WHERE kind = $kind
"""
_TEXTS_OF_IMAGES = """
    -- a row is one image in which text was read
    SELECT image_id, text_id(text) AS text_id, text FROM image_texts WHERE text <> ''
"""


def lacking_texts(store: Store, texts: Texts, signals: Versions, versions: Versions) -> Iterator[pl.DataFrame]:
    """The rows of `lacking_ids` about these texts: content_id, and the names of those of `signals` that it lacks.

    `versions` are those of all signals in use; they say which text counts as read in an image. Raises BadInput when,
    for texts of kept conversations, a decision names a redaction that is not stored.
    """
    return lacking_ids(store, signals, _TEXT_IDS, _values(store, texts, versions))


def with_texts(store: Store, text_rows: pl.DataFrame, kind: MeasuredOn, versions: Versions) -> Iterator[pl.DataFrame]:
    """The rows of a frame with their `text`, some at a time; a row without a stored text is left out.

    `text_rows` has a column content_id, without repetitions. Texts come in the order in which they are stored, which is
    the same each time: the engine reads on one thread.
    """
    if text_rows.is_empty():
        return
    # The view `texts` has assistant messages among all messages.
    kind_of_texts = MeasuredOn.MESSAGES if kind is MeasuredOn.ASSISTANT_MESSAGES else kind
    wanted_ids = text_rows.select("content_id").with_row_index("number")
    is_found = np.zeros(text_rows.height, bool)
    for places in store.batches(
        _WITH_TEXTS, wanted_ids=wanted_ids, kind=kind_of_texts, versions=versions_in_use(versions)
    ):
        places_of_rows = places.unique("number", keep="first", maintain_order=True)
        unseen = places_of_rows.filter(pl.Series(~is_found[places_of_rows["number"].to_numpy()]))
        is_found[unseen["number"].to_numpy()] = True
        yield text_rows[unseen["number"]].with_columns(unseen["text"])


def text_ids(store: Store, texts: Texts, versions: Versions) -> pl.Series:
    """The content ids of all these texts, without repetitions. Raises as `lacking_texts`."""
    return pl.concat(store.batches(_DISTINCT_TEXT_IDS, **_values(store, texts, versions)))["content_id"]


def all_texts(store: Store, texts: Texts, versions: Versions, wanted_ids: pl.Series | None = None) -> dict[str, str]:
    """Content id -> text of all these texts, or of those with `wanted_ids`, in memory. Raises as `lacking_texts`."""
    ids = text_ids(store, texts, versions) if wanted_ids is None else wanted_ids
    id_frame = pl.DataFrame({"content_id": ids})
    frames = with_texts(store, id_frame, texts.kind, versions)
    return {content_id: text for rows in frames for content_id, text in rows.iter_rows()}


def texts_read_in_images(store: Store, versions: Versions) -> pl.DataFrame:
    """image_id, text_id and text of every image in which the version in use read text."""
    return pl.concat(store.batches(_TEXTS_OF_IMAGES, versions=versions_in_use(versions)))


def _values(store: Store, texts: Texts, versions: Versions) -> dict[str, Any]:
    if texts.form is ConversationForm.KEPT:
        require_redactions(store)
    return texts._asdict() | {"versions": versions_in_use(versions)}
