"""A judge's board under style control: the fit of `style_control.py` on verdicts, with counts of the judged answers."""

from collections.abc import Callable, Iterable, Sequence

import polars as pl

from schemas.benches.judging import BoardMethod, JudgeRating
from schemas.errors import BadInput
from schemas.rating import Cluster, Rating, RatingMethod, StyleCoefficient, StylePreset
from schemas.signals import Markdown
from tasks.judging.boards.judge_board import battles_of, outcomes
from tasks.leaderboard.leaderboard import OVERALL
from tasks.leaderboard.style_control import STYLE_CONTROL, style_board

_COUNTS = ("tokens", "headers", "list_items", "bold")
"""The covariates of `curate rate` that an answer's text has; named entities are not measured on answers."""


def style_of_answers(
    answers: Iterable[tuple[str, str, str]],
    count_tokens: Callable[[Sequence[str]], Sequence[object]],
    markdown: Callable[[str], Markdown],
) -> pl.DataFrame:
    """model, question_id and the counts of (model, question, text), as `curate rate` counts those of conversations."""
    said = list(answers)
    rows = []
    for (model, question_id, text), tokens in zip(said, count_tokens([text for _, _, text in said]), strict=True):
        found = markdown(text)
        headers = found.h1 + found.h2 + found.h3 + found.h4 + found.h5 + found.h6
        listed, bold = found.ordered + found.unordered, found.bold_stars + found.bold_underscores
        counted = tokens if isinstance(tokens, int) else None
        rows.append((model, question_id, counted, headers, listed, bold))
    schema: dict[str, pl.DataType] = {"model": pl.String(), "question_id": pl.String()}
    return pl.DataFrame(rows, schema | dict.fromkeys(_COUNTS, pl.Float64()), orient="row")


def style_controlled(
    plain: Sequence[JudgeRating], verdicts: pl.DataFrame, style: pl.DataFrame, method: BoardMethod, preset: StylePreset
) -> tuple[list[JudgeRating], list[StyleCoefficient], int]:
    """The boards with scores, ratings, intervals and ranks under style control; the coefficients; verdicts left out.

    `plain` may have several slices, each of which is fitted alone. Intervals resample whole prompts, whatever the
    method says. A verdict is left out when an answer has no counts. `style`: `style_of_answers`. Raises BadInput when
    none is left in a slice.
    """
    boards, coefficients, left_out = list[JudgeRating](), list[StyleCoefficient](), 0
    for name in dict.fromkeys(row.slice for row in plain):
        of_slice = [row for row in plain if row.slice == name]
        chosen = verdicts if name == OVERALL else verdicts.filter(pl.col(name))
        board, effects, lacking = _one_board(of_slice, chosen, style, method, preset)
        boards += board if name == OVERALL else [row.model_copy(update={"slice": name}) for row in board]
        coefficients += [row.model_copy(update={"slice": name}) for row in effects]
        left_out += lacking
    return boards, coefficients, left_out


def _one_board(
    plain: Sequence[JudgeRating], verdicts: pl.DataFrame, style: pl.DataFrame, method: BoardMethod, preset: StylePreset
) -> tuple[list[JudgeRating], list[StyleCoefficient], int]:
    baseline = method.baseline
    counted = battles = battles_of(outcomes(verdicts, baseline), method)
    for side in ("a", "b"):
        counts = style.rename({"model": f"model_{side}"} | {name: f"{name}_{side}" for name in _COUNTS})
        counted = counted.join(counts, on=[f"model_{side}", "question_id"], how="left", maintain_order="left")
    counted = counted.drop_nulls([f"{name}_{side}" for name in _COUNTS for side in ("a", "b")])
    if counted.is_empty():
        raise BadInput("no verdict is on two answers whose texts are known; style control needs both")
    rating = RatingMethod(
        bootstraps=method.bootstraps, seed=method.seed, anchor_model=baseline, cluster=Cluster.QUESTION,
        style_preset=preset,
    )  # fmt: skip
    rows, coefficients = style_board(counted, rating, sides_drawn=False)
    found = {row.model: row for row in rows}
    board = [_controlled(row, found.get(row.model), row.model == baseline) for row in plain]
    ordered = sorted(board, key=lambda row: (row.score is None, -(row.score or 0), row.model))
    return ordered, coefficients, battles.height - counted.height


def _controlled(plain: JudgeRating, found: Rating | None, is_baseline: bool) -> JudgeRating:
    """The row with what the fit says; a model that only won, or only lost, keeps its score."""
    changed: dict[str, object] = {"slice": STYLE_CONTROL, "rank": found.rank if found else None}
    if not is_baseline and not (found and plain.score in (0, 100)):
        for name in ("rating", "ci95_low", "ci95_high"):
            end = changed[name] = getattr(found, name) if found else None
            # percent won against the baseline, whose rating is 1000
            won = None if end is None else float(100 / (1 + 10 ** ((1000 - end) / 400)))
            changed["score" if name == "rating" else f"score_{name}"] = won
    return plain.model_copy(update=changed)
