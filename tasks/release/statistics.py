"""The columns of VisionArena's Table 1, computed from released rows, and the published values of other datasets."""

from collections.abc import Iterator

import polars as pl

from tasks.providers.embedded.texts import Cl100k
from tasks.storage.distinct import Distinct

COLUMNS = (
    "dataset", "conversations", "models", "users", "languages", "images", "% unique images", "turns", "prompt tokens",
    "answer tokens", "human preference",
)  # fmt: skip
"""Unique images are a share of the conversations, turns the mean of a conversation, tokens the mean of a message."""
PUBLISHED = (
    ("LMSYS-Chat-1M", "1,000,000", "25", "210,479", "35", "none", "–", "2.0", "36.9", "214.2", "no"),
    ("WildVision-Chat", "45,170", "9", "–", "26", "–", "–", "1.4", "81.3", "171.6", "no"),
    ("WildVision-Battle", "10,383", "19", "–", "28", "–", "–", "1.2", "57.8", "131.7", "yes"),
    ("VisionArena-Chat", "200,000", "45", "72,933", "138", "43K", "62.1", "1.5", "184.1", "634.3", "no"),
    ("VisionArena-Battle", "30,000", "17", "14,031", "90", "23K", "76.4", "1.3", "90.2", "393.6", "yes"),
)
"""VisionArena's Table 1 (arXiv 2412.08687); users of LMSYS-Chat-1M and numbers of images from the datasets' cards.
– where a value is not published or the printed cell cannot be told."""
UNKNOWN = "–"

_PEOPLE = {"chat": "user_id", "battle": "judge"}
_MODELS = {"chat": ["model"], "battle": ["model_a", "model_b"]}
_ANSWERS = {"chat": ["conversation"], "battle": ["conversation_a", "conversation_b"]}
COMPARED = tuple(_PEOPLE)
"""Configurations that have a row in the table."""


class Statistics:
    """One configuration's row of the table, from rows added in parts. Memory: 8 bytes for each distinct id."""

    def __init__(self, config: str) -> None:
        self._config = config
        self._distinct = {name: Distinct() for name in ("models", "users", "languages", "images")}
        self._rows = self._turns = self._answers = 0
        self._tokens: list[int | None] = [0, 0]

    def add(self, rows: pl.DataFrame) -> None:
        """Add rows: gathered ones (with `image_ids`, and for chat token counts) or those of a shard."""
        images = rows["image_ids"] if "image_ids" in rows.columns else rows["images"].list.eval(_IMAGE_ID)
        found = {
            "models": pl.concat([rows[name] for name in _MODELS[self._config]]),
            "users": rows[_PEOPLE[self._config]],
            "languages": rows["language"].filter(rows["language"] != "unknown"),
            "images": images.explode(),
        }
        for name, values in found.items():
            self._distinct[name].add(values)
        self._rows += rows.height
        self._turns += int(rows["num_turns"].sum())
        self._answers += sum(int(rows[name].list.eval(_IS_ANSWER).list.sum().sum()) for name in _ANSWERS[self._config])
        for place, tokens in enumerate(_tokens(self._config, rows)):
            so_far = self._tokens[place]
            unmeasured = so_far is None or tokens.null_count() > 0
            self._tokens[place] = None if unmeasured else (so_far or 0) + int(tokens.sum())

    def cells(self) -> tuple[str, ...]:
        """The row's cells: `COLUMNS` without the dataset. A mean is – when it was not measured or has no rows."""
        counts = [self._rows, *(len(values) for values in self._distinct.values())]
        means = [
            _mean(100 * len(self._distinct["images"]), self._rows, 1),
            _mean(self._turns, self._rows, 2),
            _mean(self._tokens[0], self._turns, 1),
            _mean(self._tokens[1], self._answers, 1),
        ]
        return (*(f"{count:,}" for count in counts), *means, "yes" if self._config == "battle" else "no")


_IMAGE_ID = pl.element().struct.field("path").str.head(32)
_IS_ANSWER = (pl.element().struct.field("role") == "assistant").cast(pl.Int64)


def _mean(total: int | None, count: int, digits: int) -> str:
    return UNKNOWN if total is None or count == 0 else f"{total / count:,.{digits}f}"


def _tokens(config: str, rows: pl.DataFrame) -> Iterator[pl.Series]:
    """cl100k_base tokens of user messages, then of answers; counted here when the rows have no token columns."""
    if config == "battle":
        metadata = rows["conv_metadata"].struct
        sides = [metadata.field(side).struct.field("assistant_tokens") for side in ("a", "b")]
        yield metadata.field("context_tokens")
        yield sides[0] + sides[1]
    elif "context_tokens" in rows.columns:
        yield from (rows["context_tokens"], rows["assistant_tokens"])
    else:
        counter = Cl100k()
        messages = rows["conversation"].explode().drop_nulls().struct
        for role in ("user", "assistant"):
            texts = messages.field("content").filter(messages.field("role") == role)
            yield pl.Series(counter.count_tokens(texts.to_list()), dtype=pl.Int64)
