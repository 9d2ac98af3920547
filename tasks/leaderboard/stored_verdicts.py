"""The verdicts of a store that one board is computed from: of one judge version, on one draw, with one baseline."""

import polars as pl

from schemas.errors import BadInput, known_values
from tasks.storage.tables import Store

_COLUMNS = [
    "question_id", "model_a", "model_b", "baseline", "answer_a", "answer_b", "label", "judge", "judge_version", "draw",
    "fenced_marks",
]  # fmt: skip


def stored_verdicts(store: Store, baseline: str | None, judge_version: str | None, draw: str | None) -> pl.DataFrame:
    """Verdicts with the wanted values, and a bool column `topic:<name>` for every topic of their prompts.

    Raises BadInput without verdicts, and where several judge versions, draws, baselines or versions of a model's
    answers are left: a board never mixes them.
    """
    verdicts = store.read("verdicts", _COLUMNS)
    if verdicts.is_empty():
        raise BadInput(f"store {store.root!r} has no verdicts; make them with `curate judge compare`")
    wanted = {"baseline": baseline, "judge_version": judge_version, "draw": draw}
    for column, value in wanted.items():
        known = sorted(verdicts[column].unique())
        option = f"--{column.replace('_', '-')}"
        if value is not None and value not in known:
            raise BadInput(f"{option} {known_values(value, known)}")
        if value is None and len(known) > 1:
            raise BadInput(
                f"a board never mixes verdicts of several {column}s; choose with {option}: {', '.join(known)}"
            )
        verdicts = verdicts.filter(pl.col(column) == (value or known[0]))
    _check_answers(verdicts)
    return _with_topics(store, verdicts)


def mean_tokens(store: Store, verdicts: pl.DataFrame) -> dict[str, float]:
    """Model -> mean tokens of the answers that were judged."""
    judged = _answers(verdicts).unique()
    answers = store.read("answers", ["question_id", "model", "version", "tokens"])
    counted = answers.join(judged, on=["question_id", "model", "version"]).drop_nulls("tokens")
    return dict(counted.group_by("model").agg(pl.col("tokens").mean()).iter_rows())


def _answers(verdicts: pl.DataFrame) -> pl.DataFrame:
    """question_id, model and version of both answers of every verdict."""
    sides = [verdicts.select("question_id", model=f"model_{side}", version=f"answer_{side}") for side in ("a", "b")]
    return pl.concat(sides)


def _check_answers(verdicts: pl.DataFrame) -> None:
    versions = _answers(verdicts).group_by("model").agg(pl.col("version").unique().sort()).sort("model")
    for model, found in versions.filter(pl.col("version").list.len() > 1).iter_rows():
        raise BadInput(f"verdicts on {len(found)} versions of the answers of {model!r} ({', '.join(found)}) do not mix")


def _with_topics(store: Store, verdicts: pl.DataFrame) -> pl.DataFrame:
    topics = store.read("topics", ["topic", "name"]).filter(pl.col("topic") >= 0).unique("topic")
    named = store.read("bench", ["conversation_id", "topic"]).join(topics, on="topic")
    placed = verdicts.join(named, left_on="question_id", right_on="conversation_id", how="left", maintain_order="left")
    names = sorted(set(placed["name"].drop_nulls()))
    of_topics = ((pl.col("name") == name).fill_null(False).alias(f"topic:{name}") for name in names)
    return placed.with_columns(of_topics).drop("name", "topic")
