"""The texts of a store, some at a time: which lack a signal, and those read in the order in which they are measured."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Lock

import polars as pl

from schemas.signals import MeasuredOn
from tasks.storage.content_id import Distinct
from tasks.storage.database import TemporaryDatabase

TextsOn = Mapping[MeasuredOn, pl.DataFrame]
"""Kind of text -> content_id and text. A text may be there several times."""
TextSlices = Callable[[], Iterator[TextsOn]]
"""Reads texts some at a time, from the beginning at each call."""
WINDOW = 2_048
"""Texts that are held in memory."""
_NONE = pl.DataFrame(schema={"content_id": pl.String, "text": pl.String})


def texts_by_kind(conversations: pl.DataFrame) -> dict[MeasuredOn, pl.DataFrame]:
    """content_id and text of all messages, of assistant messages, and of prompts."""
    turns = conversations.select("turns").explode("turns").drop_nulls().unnest("turns")
    messages = turns.select("role", content_id="text_id", text="content")
    turn = pl.element().struct
    asked = pl.col("turns").list.eval(turn.field("content").filter(turn.field("role") == "user"))
    return {
        MeasuredOn.MESSAGES: messages.drop("role"),
        MeasuredOn.ASSISTANT_MESSAGES: messages.filter(role="assistant").drop("role"),
        MeasuredOn.PROMPT: conversations.select(content_id="prompt_id", text=asked.list.join("\n\n")),
    }


def texts_in(text_of: Mapping[str, str]) -> pl.DataFrame:
    """Texts by content id as a frame of content_id and text."""
    return pl.DataFrame({"content_id": [*text_of], "text": [*text_of.values()]}, _NONE.schema)


class WaitingTexts(Mapping[str, str]):
    """Texts by content id in a temporary database. Reading them sorted by id is fast; memory holds some at a time."""

    def __init__(self, content_ids: Iterable[str], texts: Iterable[pl.DataFrame]) -> None:
        """`texts`: content_id and text, of these ids and others."""
        self._ids = pl.Series([*content_ids], dtype=pl.String).unique().sort()
        self._database, self._lock, self._window = TemporaryDatabase(), Lock(), dict[str, str]()
        wanted = Distinct()
        wanted.add(self._ids)
        self._database.run(
            "CREATE TABLE texts AS SELECT content_id, text FROM given ORDER BY content_id",
            given=(rows.filter(wanted.hold(pl.col("content_id"))) for some in ([_NONE], texts) for rows in some),
        )

    def __getitem__(self, content_id: str) -> str:
        with self._lock:  # batches are read on several threads
            if content_id not in self._window:
                last = self._ids[min(int(self._ids.search_sorted(content_id)) + WINDOW, len(self)) - 1]
                query = "SELECT content_id, text FROM texts WHERE content_id BETWEEN ? AND ?"
                self._window = dict(self._database.read(query, content_id, last).iter_rows())
            return self._window[content_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)
