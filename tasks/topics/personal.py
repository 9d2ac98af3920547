"""Keeps personal data out of topic names.

In: documents, what the signal `text_pii` found in their messages, and names. Out: texts without it, and the topics
whose names hold personal data.
"""

from collections.abc import Mapping

import polars as pl

from tasks.providers.capabilities import Failed, PiiFinder
from tasks.storage.queries.signals import Versions, signal_values
from tasks.storage.tables import Store


def impersonal_prompts(store: Store, documents: pl.DataFrame, versions: Versions) -> pl.Series:
    """What users asked in each document, without what was found in it; messages that were not searched are left out."""
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


def personal_names(names: Mapping[int, str], finder: PiiFinder) -> set[int]:
    """The topics whose name holds personal data, or could not be searched for it.

    A single word is no person here: lists of words (`giraffe, savanna`) look like lists of first names to the finder.
    """
    found = finder.find_pii(list(names.values()))
    return {
        topic
        for (topic, name), spans in zip(names.items(), found, strict=True)
        if isinstance(spans, Failed) or any(_tells(name[span.start : span.end], span.type) for span in spans)
    }


def _tells(value: str, kind: str) -> bool:
    return kind != "person" or (" " in value.strip() and "," not in value)
