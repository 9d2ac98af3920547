"""Masks personal data, and says which images may show a person.

In: texts with the personal data found in them, a store. Out: stretches of text, the reasons for which images are
blurred. A further reason is a column of `_MEASURED_IMAGES` and an entry of `reasons`; its
table goes into `MaskedStore.whole_or_none`, so that a lost part never makes an image count as safe.
"""

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

import polars as pl

from schemas.items.review import Stretch
from schemas.signals import TextPii
from tasks.storage.queries.repeated_values import FoundSpan
from tasks.storage.queries.signals import latest_query, latest_values
from tasks.storage.readable import ReadableStore

NOT_SEARCHED = "not searched for personal data yet"
if TYPE_CHECKING:  # slow to load, and pages without texts that nobody searched do not need it
    from tasks.providers.capabilities import PiiFinder

PII_TABLE, _MODERATION_TABLE = "signals/text_pii", "signals/image_moderation"
SEARCHED_CHARACTERS_MAX = 100_000
"""Longer texts are not searched while somebody waits for the page."""
_FINDER_LOCK = Lock()
NSFW_PROBABILITY_SAFE = 0.2
"""OpenNSFW's authors call images below it safe."""


class MaskedStore(ReadableStore):
    """A store of which nothing personal is shown: while a part of a measurement is lost, nothing of that one counts.

    The part may hold a later value than the others.
    """

    whole_or_none = (PII_TABLE, "signals/nsfw", "signals/faces", "signals/image_text", _MODERATION_TABLE)


def masked_parts(text: str, spans: Sequence[FoundSpan] | None, opened: bool) -> list[Stretch]:
    """The text in stretches; personal data is left out unless `opened`. `spans` is None for a text not searched yet."""
    if spans is None:
        return [Stretch(text if opened else "", NOT_SEARCHED)]
    stretches, position = list[Stretch](), 0
    for span in sorted(spans, key=lambda found_span: int(found_span["start"])):
        start, end = max(position, span["start"]), span["end"]
        if end > start:
            stretches += [Stretch(text[position:start]), Stretch(text[start:end] if opened else "", span["type"])]
            position = end
    return [stretch for stretch in [*stretches, Stretch(text[position:])] if stretch.text or stretch.hidden]


def masked_text(text: str, spans: Sequence[FoundSpan] | None) -> str:
    """The text with types of personal data in place of it, for cards and searches."""
    stretches = masked_parts(text, spans, opened=False)
    return "".join(f"[{stretch.hidden}]" if stretch.hidden else stretch.text for stretch in stretches)


def spans_found(store: MaskedStore, text_ids: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Content id of a text -> the personal data found in it, for all texts that were searched."""
    searched = latest_values(store, "text_pii", text_ids, ["spans"])
    return {content_id: value["spans"] for content_id, value in searched.items()}


@lru_cache(4_096)
def searched_now(text: str) -> list[dict[str, Any]] | None:
    """Personal data in a text that no run has searched, by the embedded finder; None for one that it cannot search.

    The first call loads the finder, which takes seconds.
    """
    from tasks.signals.registry import text_pii

    if len(text) > SEARCHED_CHARACTERS_MAX:
        return None
    with _FINDER_LOCK:
        (pii,) = text_pii(_finder(), [text])
    return [span.model_dump() for span in pii.spans] if isinstance(pii, TextPii) else None


@cache
def _finder() -> "PiiFinder":
    from tasks.providers import Providers

    finder: PiiFinder = Providers({})["text_pii"]
    return finder


_MEASURED_IMAGES = f"""
    -- a row is one image that was measured, with what speaks against showing it; an image may show a text in which
    -- personal data was found, or that nobody searched. The engine puts views before a query, so WITH stands inside
    SELECT * FROM (
        WITH read_texts AS (
            SELECT content_id, CASE WHEN text <> '' THEN text_id(text) END AS text_id
            FROM ({latest_query("image_text", ["text"])})
        ), searched_texts AS (
            SELECT content_id AS text_id, spans
            FROM ({latest_query("text_pii", ["spans"], "SELECT text_id AS content_id FROM read_texts")})
        )
        SELECT
            content_id, nsfw_probability, confidence_max,
            text_id IS NOT NULL AND coalesce(len(spans) > 0, true) AS is_personal,
            coalesce(len(flagged_categories) > 0, false) AS is_flagged
        FROM ({latest_query("nsfw", ["nsfw_probability"])})
        JOIN ({latest_query("faces", ["confidence_max"])}) USING (content_id)
        JOIN read_texts USING (content_id)
        LEFT JOIN searched_texts USING (text_id)
        LEFT JOIN ({latest_query("image_moderation", ["flagged_categories"])}) USING (content_id)
    )
"""  # noqa: S608 - queries of our own


def blurred_images(store: MaskedStore) -> dict[str, str]:
    """Image id -> why it is blurred, "" for an image that is not; an image that was not measured has no entry.

    Where a part of a table of images cannot be read, no image counts as measured.
    """
    images = store.ask(_MEASURED_IMAGES)
    if (
        _MODERATION_TABLE in store.damaged
    ):  # the question found it out; images that the table lacks count as not flagged
        return {}
    reasons = {
        "perhaps nudity": pl.col("nsfw_probability") >= NSFW_PROBABILITY_SAFE,
        "perhaps a face": pl.col("confidence_max") > 0,
        "perhaps personal data in its text": pl.col("is_personal"),
        "flagged as harmful": pl.col("is_flagged"),
    }
    texts = [pl.when(holds).then(pl.lit(reason)) for reason, holds in reasons.items()]
    why = pl.concat_str(*texts, separator=", ", ignore_nulls=True)
    return dict(images.select("content_id", why.alias("why")).iter_rows())
