"""The judge's board of the release that is being built: whose it is, ids of answers and verdicts, and their texts."""

import re
from collections.abc import Sequence
from typing import Any

import polars as pl

from schemas.benches.judging import STAND_IN
from tasks.storage.content_id import combined_id, text_id
from tasks.storage.tables import Store

JUDGE = "judge"
"""Name of the embedded judge among the embedded stand-ins of a release."""
ITEM_JUDGE = "item_judge"
"""The same of the embedded judge of written items."""
_ON_A_DISK = re.compile(r"[/\\~.]|[A-Za-z]:\\")
"""Beginnings of paths of a server's models."""
_ANSWER = ("question_id", "document_id", "model", "version")
_VERDICT = ("question_id", "document_id", "model_a", "model_b", "answer_a", "answer_b", "judge_version")


def judged_by(store: Store) -> dict[str, Any] | None:
    """The row of `judge_agreement`; None when the release has no judge's board."""
    return next(store.read("judge_agreement").iter_rows(named=True), None)


def embedded_judge(store: Store) -> list[str]:
    """`[JUDGE]` when the release has a board of the judge that ships with the install; otherwise empty."""
    about = judged_by(store)
    return [JUDGE] if about and about["judge"] == STAND_IN else []


def public_version(version: str) -> str:
    """A judge's version as all may read it: one that names a path or an address is replaced by its hash."""
    from tasks.release.contents import identifiers  # imported late: the explorer needs no scipy

    model = version.partition("-")[2]  # after the vendor
    return f"judge-{text_id(version)[:12]}" if _ON_A_DISK.match(model) or identifiers(version) else version


def answer_ids(answers: pl.DataFrame) -> list[str]:
    """Ids of rows with question_id, document_id, model and version: hashes, because a version may name a path."""
    return _ids("answer", answers, _ANSWER)


def verdict_ids(verdicts: pl.DataFrame) -> list[str]:
    """Ids of rows of `verdicts`."""
    return _ids("verdict", verdicts, _VERDICT)


def _ids(kind: str, rows: pl.DataFrame, columns: Sequence[str]) -> list[str]:
    return [combined_id(kind, (part or "" for part in row)) for row in rows.select(columns).iter_rows()]


def texts_on_bench(store: Store) -> dict[str, str]:
    """Text id -> every answer to the drawn public prompts and every verdict on them: at most these can be released."""
    drawn = store.read("bench", ["conversation_id"])["conversation_id"].implode()
    tables = (store.read(name, ["question_id", "text"]) for name in ("answers", "verdicts"))
    texts = pl.concat(rows.filter(pl.col("question_id").is_in(drawn))["text"] for rows in tables)
    return {text_id(text): text for text in texts}


def released_judge_texts(store: Store) -> pl.DataFrame:
    """item_id, question_id, model and text of every answer and verdict that `judge_cards` names."""
    cards, about = store.read("judge_cards"), judged_by(store) or {}
    named = pl.concat([cards["answer_a"], cards["answer_b"], cards["verdict_id"]])
    answers, verdicts = store.read("answers"), store.read("verdicts")
    verdicts = verdicts.filter(draw=about.get("draw"), baseline=about.get("baseline"))
    frames = [
        answers.select("question_id", "model", "text", item_id=pl.Series(answer_ids(answers), dtype=pl.String)),
        verdicts.select(
            "question_id", "text", model="judge", item_id=pl.Series(verdict_ids(verdicts), dtype=pl.String)
        ),
    ]
    every = pl.concat(frames, how="diagonal").select("item_id", "question_id", "model", "text")
    return every.filter(pl.col("item_id").is_in(named.implode())).sort("item_id")
