"""The judge's board of a release: from the verdicts on the draw that is released, beside the people's board."""

from collections.abc import Sequence

import polars as pl

from schemas.benches.judge_release import SLICE_PROMPTS_MIN, JudgeAgreement, JudgeCard
from schemas.benches.judging import STAND_IN, BoardMethod, JudgeRating
from schemas.errors import BadInput, known_values
from schemas.rating import OVERALL, Rating
from schemas.settings import Settings
from tasks.bench.draw import draw_name, drawn_prompts
from tasks.judging.boards.judge_board import as_ratings, judge_bias, judge_boards, outcomes
from tasks.judging.boards.judged_verdicts import (
    VERDICT_COLUMNS,
    mean_tokens,
    on_versions,
    prompts_by_slice,
    with_slices,
)
from tasks.judging.released_texts import answer_ids, verdict_ids
from tasks.judging.visit_battles import judged_answers
from tasks.leaderboard.agreement import agreement
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store

_PERSON = "person"
"""Name of the judge in a person's verdict."""
_CHOICE = ["judge_version", "baseline"]
_COUNTED = (pl.len().cast(pl.Int64), pl.col("place").max().cast(pl.Int64))
_BEST = (-pl.col("len"), -pl.col("place"))


def chosen_verdicts(
    store: Store, question_ids: Sequence[str], judge_version: str | None = None
) -> tuple[pl.DataFrame, list[str]] | None:
    """The verdicts on the released prompts that a board is made of, and judge versions that are left out.

    None when there are no verdicts.

    A board never mixes judge versions, baselines, or versions of a model's answers: of several, the one with most
    verdicts counts, then the newest; and the embedded judge only where there is no other. Raises BadInput when
    `judge_version` is given and no verdict is its.
    """
    try:
        draw = draw_name(drawn_prompts(store, hidden=False), hidden=False)
    except BadInput:  # some of its prompts are not kept any more, so that no verdict is on what is released
        return None
    verdicts = store.read("verdicts", VERDICT_COLUMNS).with_row_index("place")  # rows are in the order of arrival
    verdicts = verdicts.filter(pl.col("question_id").is_in(list(question_ids)), pl.col("judge") != _PERSON, draw=draw)
    versions = sorted({*verdicts["judge_version"]})
    if judge_version is not None:
        if judge_version not in versions:
            raise BadInput(f"--judge-version: no verdict on this benchmark by {known_values(judge_version, versions)}")
        verdicts = verdicts.filter(judge_version=judge_version)
    if verdicts.is_empty():
        return None
    stand_in = (pl.col("judge") == STAND_IN).alias("stand_in")
    order = verdicts.group_by(*_CHOICE, stand_in).agg(*_COUNTED).sort("stand_in", *_BEST)
    first = order.row(0, named=True)
    chosen = verdicts.filter(**{name: first[name] for name in _CHOICE})
    return _of_one_version(chosen), [name for name in versions if name != first["judge_version"]]


def _of_one_version(verdicts: pl.DataFrame) -> pl.DataFrame:
    """The verdicts on the version of each model's answers that most verdicts are on."""
    counts = judged_answers(verdicts, "place").group_by("model", "version").agg(*_COUNTED).sort("model", *_BEST)
    return on_versions(verdicts, counts.unique("model", keep="first", maintain_order=True).select("model", "version"))


def released_board(
    store: Store, verdicts: pl.DataFrame, prompts: Sequence[str], settings: Settings, versions: Versions
) -> list[JudgeRating]:
    """The board of all prompts, and of every slice with enough of them. `prompts`: the released question ids."""
    placed = with_slices(store, verdicts, versions)
    judged = placed.unique("question_id")
    enough = [name for name in placed.columns if ":" in name and judged[name].sum() >= SLICE_PROMPTS_MIN]
    method = BoardMethod(baseline=verdicts["baseline"][0], bootstraps=settings.bootstraps, seed=settings.seed)
    sizes, tokens = prompts_by_slice(store, prompts, versions), mean_tokens(store, verdicts)
    return judge_boards(placed, method, verdicts["judge"][0], tokens, [OVERALL, *enough], sizes)


def judge_agreement(verdicts: pl.DataFrame, board: Sequence[JudgeRating], people: Sequence[Rating]) -> JudgeAgreement:
    """Whose board it is, how far to trust the judge, and how it agrees with the people's overall board."""
    first = verdicts.row(0, named=True)
    bias = judge_bias(outcomes(verdicts, first["baseline"]), first["judge"], first["baseline"])
    ours = as_ratings([row for row in board if row.slice == OVERALL])
    shared = {row.model for row in ours} & {row.model for row in people}
    likeness = agreement(ours, people) if len(shared) > 1 else None
    return JudgeAgreement(
        **bias.model_dump(), **{name: first[name] for name in ("judge_version", "protocol", "baseline", "draw")},
        prompts=verdicts["question_id"].n_unique(), models=len(shared), spearman=likeness and likeness.spearman,
        kendall=likeness and likeness.kendall, pair_agreement=likeness and likeness.agreement,
        separability=likeness and likeness.separability,
        separability_people=likeness and likeness.separability_reference,
    )  # fmt: skip


def judge_cards(verdicts: pl.DataFrame) -> list[JudgeCard]:
    """One card for each verdict."""
    sides = {
        side: answer_ids(verdicts.select("question_id", "document_id", model=f"model_{side}", version=f"answer_{side}"))
        for side in ("a", "b")
    }
    named = verdicts.select("question_id", "model_a", "model_b", "label").with_columns(
        answer_a=pl.Series(sides["a"]), answer_b=pl.Series(sides["b"]), verdict_id=pl.Series(verdict_ids(verdicts))
    )
    return [JudgeCard(**row) for row in named.iter_rows(named=True)]
