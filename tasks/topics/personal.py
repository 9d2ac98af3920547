"""Keeps personal data out of topic names.

In: documents, what the signal `text_pii` found in their messages, and names. Out: texts without it, and the topics
whose names hold personal data.
"""

from collections.abc import Iterable, Mapping

import polars as pl

from schemas.signals import PiiSpan
from tasks.providers.capabilities import Failed, PiiFinder
from tasks.storage.queries.signals import Versions, signal_values
from tasks.storage.tables import Store
from tasks.topics.descriptions import NAMES, OUTLIERS


def impersonal_prompts(store: Store, documents: pl.DataFrame, versions: Versions) -> pl.Series:
    """Users' messages of each document without the personal data found in them; unsearched messages are left out."""
    turn = pl.col("turns").struct
    said = documents.with_row_index("row").select("row", "turns").explode("turns").filter(turn.field("role") == "user")
    said = said.select("row", text=turn.field("content"), content_id=turn.field("text_id"))
    found = signal_values(store, "text_pii", versions["text_pii"], ["spans"], said["content_id"].unique())
    searched = said.join(found, on="content_id", how="inner", maintain_order="left")
    texts = [_without(text, spans) for text, spans in searched.select("text", "spans").iter_rows()]
    asked = (
        searched.with_columns(text=pl.Series(texts, dtype=pl.String))
        .group_by("row")
        .agg(pl.col("text").str.join("\n\n"))
    )
    rows = pl.DataFrame({"row": range(documents.height)}, schema={"row": said.schema["row"]})
    return rows.join(asked, on="row", how="left", maintain_order="left")["text"].fill_null("")


def _without(text: str, spans: list[Mapping[str, int]]) -> str:
    pieces, end = list[str](), 0
    for span in sorted(spans, key=lambda each: each["start"]):
        pieces += [text[end : span["start"]], " "]
        end = max(end, span["end"])
    return "".join([*pieces, text[end:]])


def personal_names(store: Store, names: Mapping[int, str], finder: PiiFinder) -> set[int]:
    """The topics whose name holds personal data, or could not be searched for it.

    A name that a provider gave is searched once by each version of the finder: `topic_names` keeps the answer.
    A single word is no person here: lists of words (`giraffe, savanna`) look like lists of first names to the finder.
    """
    kept = store.read(NAMES)
    known = dict(kept.filter(searched_by=finder.version).select("shown", "personal").iter_rows())
    fresh = sorted(set(names.values()) - known.keys() - {OUTLIERS})
    answers = zip(fresh, finder.find_pii(fresh) if fresh else [], strict=True)
    found = {name: _holds(name, spans) for name, spans in answers if not isinstance(spans, Failed)}
    if not kept.filter(pl.col("shown").is_in(list(found))).is_empty():
        new = pl.col("shown").replace_strict(found, default=None, return_dtype=pl.Boolean)
        by = pl.when(new.is_null()).then("searched_by").otherwise(pl.lit(finder.version))
        store.replace(NAMES, kept.with_columns(searched_by=by, personal=pl.coalesce(new, "personal")))
    return {topic for topic, name in names.items() if (known | found | {OUTLIERS: False}).get(name, True)}


def _holds(name: str, spans: Iterable[PiiSpan]) -> bool:
    found = ((span.type, name[span.start : span.end]) for span in spans)
    return any(kind != "person" or (" " in value.strip() and "," not in value) for kind, value in found)
