"""Counts of the rows of a release, made while they are written, so that the report counts what the release holds."""

import polars as pl

from tasks.storage.content_id import Distinct
from tasks.storage.queries.conversation_features import ALL_TAGS, CRITERIA, TAXONOMY, tallied

CHAT, BATTLE = COUNTED = ("chat", "battle")
"""Configurations whose rows are counted."""
ANSWERS, PAIRS = ("model",), ("model_a", "model_b", "winner")
_KEYS = {
    CHAT: (("day",), ("language",), ("num_turns",), ALL_TAGS, CRITERIA, TAXONOMY),
    BATTLE: (("day",), ("language",), ("num_turns",), ALL_TAGS, TAXONOMY, PAIRS),
}
_ANSWER = (pl.element().struct.field("role") == "assistant").cast(pl.Int64)


class Tallies:
    """Numbers of rows by configuration and by the values of some columns.

    Memory: each combination of values once, and 8 bytes for each user and image.
    """

    def __init__(self) -> None:
        self.rows = dict.fromkeys(COUNTED, 0)
        self.users, self.images = Distinct(), Distinct()
        self.failures: list[str] = []
        """Ids of the released failures, which leave out what is hidden."""
        self._counts: dict[tuple[str, tuple[str, ...]], pl.DataFrame] = {}

    def add(self, config: str, rows: pl.DataFrame) -> None:
        """Add gathered rows of a configuration; those of others are not counted."""
        if config == "failures":
            self.failures.extend(rows["question_id"])
        if config not in self.rows:
            return
        self.rows[config] += rows.height
        self.users.add(rows["user_id" if config == CHAT else "judge"])
        self.images.add(rows["image_ids"].explode())
        counted = _with_columns(config, rows)
        for columns in _KEYS[config]:
            self._sum(config, columns, tallied(counted, columns))
        self._sum(config, ANSWERS, _answers(config, counted))

    def of(self, config: str, columns: tuple[str, ...]) -> pl.DataFrame:
        """Each combination of values of `columns` with its number of rows in `conversations`.

        By ANSWERS, also: answers, their `tokens` and the answers `counted` for them, `refusals`, and the conversations
        for which a refusal is `told`.
        """
        empty = dict.fromkeys(columns, pl.String) | {"conversations": pl.Int64}
        return self._counts.get((config, columns), pl.DataFrame(schema=empty))

    def _sum(self, config: str, columns: tuple[str, ...], found: pl.DataFrame) -> None:
        before = self._counts.get((config, columns))
        both = found if before is None else pl.concat([before, found])
        self._counts[config, columns] = both.group_by(columns).agg(pl.all().sum())


def _with_columns(config: str, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with their day, tags and places in the taxonomy as columns."""
    tags = rows["categories"].struct.unnest().rename({"is_code": "code"})
    columns = [*tags, *(rows["taxonomy"].struct.unnest() if config == BATTLE else ())]
    return rows.with_columns(
        *columns,
        day=pl.from_epoch(pl.col("tstamp") * 1e6, time_unit="us").dt.date(),
        multi_turn=pl.col("num_turns") > 1,
    )


def _answers(config: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Sums over the models' answers; a battle has one conversation with each of two models."""
    if config == CHAT:
        return _of_models(rows.select("model", "conversation", "refusal", tokens="assistant_tokens"))
    meta = pl.col("conv_metadata").struct
    sides = (
        rows.select(
            model=f"model_{side}",
            conversation=f"conversation_{side}",
            refusal=pl.lit(None, pl.Boolean),  # released for the left side only
            tokens=meta.field(side).struct.field("assistant_tokens"),
        )
        for side in ("a", "b")
    )
    return _of_models(pl.concat(sides))


def _of_models(answered: pl.DataFrame) -> pl.DataFrame:
    known, answers = pl.col("tokens").is_not_null(), pl.col("conversation").list.eval(_ANSWER).list.sum()
    return answered.group_by("model").agg(
        conversations=pl.len().cast(pl.Int64),
        answers=answers.sum().cast(pl.Int64),
        tokens=pl.col("tokens").sum().cast(pl.Int64),
        counted=answers.filter(known).sum().cast(pl.Int64),
        refusals=pl.col("refusal").sum().cast(pl.Int64),
        told=pl.col("refusal").count().cast(pl.Int64),
    )
