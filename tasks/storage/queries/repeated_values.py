"""Where a value that was found to be personal data stands again, in the texts that belong together with its own.

In: texts with what was found in them, or a store. Out: further spans, or the values of each conversation's item. A
further text of an item is a SELECT in `_VALUES_OF_ITEMS`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from tasks.storage.queries.signals import latest_query
from tasks.storage.tables import Store

REPEATED_CHARACTERS_MIN = 4
"""Shorter values are masked only where they were found."""
FoundSpan = Mapping[str, Any]
"""`start`, `end` and `type` of a stretch of a text."""
FoundValue = Mapping[str, str]
"""`value` and `type` of a stretch of a text."""
_VALUES_OF_ITEMS = f"""
    -- a row is one conversation, and the personal data that was found in the texts of its item: its messages, what was
    -- read in its images, and, for a side of a battle, these of the other side and the words of the voter
    SELECT conversation_id, list(DISTINCT found_value) AS found_values
    FROM (
        WITH found_texts AS MATERIALIZED (
            SELECT content_id AS text_id, spans FROM ({latest_query("text_pii", ["spans"])}) WHERE len(spans) > 0
        ), read_texts AS (
            SELECT content_id AS image_id, text, text_id(text) AS text_id
            FROM ({latest_query("image_text", ["text"])}) WHERE text <> ''
        ), messages AS (
            SELECT conversation_id, unnest("turns.content") AS text, unnest("turns.text_id") AS text_id
            FROM conversations
        ), places_of_images AS (
            SELECT conversation_id, unnest(image_ids) AS image_id FROM conversations
        ), of_conversations AS MATERIALIZED (
            SELECT conversation_id, unnest(values_found(text, spans)) AS found_value
            FROM messages JOIN found_texts USING (text_id)
            UNION ALL
            SELECT conversation_id, unnest(values_found(text, spans)) AS found_value
            FROM places_of_images
            JOIN (SELECT image_id, text, spans FROM read_texts JOIN found_texts USING (text_id)) USING (image_id)
        )
        SELECT conversation_id, found_value FROM of_conversations
        UNION ALL
        SELECT other_side AS conversation_id, found_value
        FROM of_conversations JOIN (
            SELECT conversation_a AS conversation_id, conversation_b AS other_side FROM battles
            UNION ALL
            SELECT conversation_b, conversation_a FROM battles
        ) USING (conversation_id)
        UNION ALL
        SELECT unnest([conversation_a, conversation_b]) AS conversation_id, found_value
        FROM (
            SELECT conversation_a, conversation_b, unnest(values_found(vote_reason, spans)) AS found_value
            FROM battles JOIN found_texts ON vote_reason_id = text_id
        )
    )
    GROUP BY conversation_id
"""  # noqa: S608 - queries of our own


def values_of_items(store: Store) -> pl.DataFrame:
    """conversation_id and `found_values` of the conversations in whose items personal data was found."""
    return pl.concat(store.batches(_VALUES_OF_ITEMS))


def with_repeats(
    texts: Sequence[tuple[str, Sequence[FoundSpan] | None]], found_values: Iterable[FoundValue] = ()
) -> list[list[FoundSpan] | None]:
    """The spans of texts that belong together, with every other place where a found value stands as a word.

    Texts belong together when they are of one item: give all of them at once, and what was found in those that are not
    there. None stays None: nobody searched it.
    """
    values = {found["value"].strip(): found["type"] for found in found_values}
    values |= {text[span["start"] : span["end"]].strip(): span["type"] for text, spans in texts for span in spans or ()}
    values = {value: kind for value, kind in values.items() if len(value) >= REPEATED_CHARACTERS_MIN}
    return [None if spans is None else [*spans, *_repeats(text, values)] for text, spans in texts]


def _repeats(text: str, values: Mapping[str, str]) -> Iterator[FoundSpan]:
    r"""Where values stand as words: `(?<!\w)value(?!\w)`. Compiling that for each takes longer than the search."""
    for value, kind in values.items():
        start = text.find(value)
        while start >= 0:
            end = start + len(value)
            beside = text[max(0, start - 1) : start] + text[end : end + 1]
            alone = not any(letter.isalnum() or letter == "_" for letter in beside)
            if alone:
                yield {"start": start, "end": end, "type": kind}
            start = text.find(value, end if alone else start + 1)
