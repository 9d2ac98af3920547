"""The verdicts that one board is computed from, of files or of a store: one judge version, one draw, one baseline."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import polars as pl

from schemas.benches.judging import JudgeBias, ParsedJudgements
from schemas.errors import BadInput, known_values
from tasks.judging.boards.judge_board import judge_bias, outcomes
from tasks.judging.files.answer_files import answer_lengths, texts_of_files
from tasks.judging.files.judgement_files import check_labels, parsed, read_judgements
from tasks.judging.protocols import VISIT_PROTOCOLS
from tasks.judging.questions import prompts_of_draw
from tasks.judging.visit_battles import ITEMS_DRAW, judged_answers
from tasks.leaderboard.leaderboard import UNKNOWN_MAX, unknown_shares
from tasks.providers import Providers
from tasks.storage.queries.bench import FAILURES
from tasks.storage.queries.conversation_features import CATEGORIES, PROMPT_KINDS, conversation_features
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store

VERDICT_COLUMNS = [
    "question_id", "model_a", "model_b", "baseline", "answer_a", "answer_b", "label", "judge", "judge_version", "draw",
    "fenced_marks", "document_id", "protocol",
]  # fmt: skip
"""Columns of `verdicts` that boards read."""


@dataclass(frozen=True)
class Judged:
    """Verdicts of one judge on one draw."""

    verdicts: pl.DataFrame
    """question_id, model_a, model_b and label, and a bool column for every slice."""
    judge: str
    """Name of the judge."""
    baseline: str
    """Model that every other one was compared with."""
    tokens: Mapping[str, float]
    """Model -> mean tokens of its answers."""
    texts: Callable[[], Sequence[tuple[str, str, str]]]
    """Reads the judged answers: model, question and text."""
    parsed: Sequence[ParsedJudgements] = ()
    """Counts of what the texts of judgement files hold."""
    prompts: Mapping[str, int] = field(default_factory=dict)
    """Slice -> prompts of the draw; empty when the draw is not known."""

    @cached_property
    def bias(self) -> JudgeBias:
        """How far to trust the judge."""
        return judge_bias(outcomes(self.verdicts, self.baseline), self.judge, self.baseline)


def judged_in_files(files: Sequence[Path], baseline: str | None, answers: Sequence[Path], whole: bool) -> Judged:
    """The verdicts of judgement files; `answers` are files or folders of the judged answers.

    Raises BadInput for files that cannot be read, a question without an answer, and with `whole` for a model of whose
    judgements fewer than half have a label.
    """
    judgements = read_judgements(files, baseline)
    if whole:
        check_labels(judgements)
    tokens: dict[str, float] = {}
    if answers:
        tokens, questions = answer_lengths(answers)
        if judgements.baseline not in tokens:
            raise BadInput(f"no answers of the baseline {known_values(judgements.baseline, tokens)}")
        if unknown := sorted(set(judgements.verdicts["question_id"]) - questions):
            raise BadInput(f"question {unknown[0]!r} is judged, but {len(unknown)} such questions have no answer")
    texts = partial(texts_of_files, answers)
    return Judged(judgements.verdicts, judgements.judge, judgements.baseline, tokens, texts, parsed(judgements))


def judged_in_store(
    store: Store, versions: Versions, chosen: Mapping[str, str | None], answer_versions: Sequence[str] = ()
) -> Judged:
    """The verdicts of a store. Raises BadInput as `stored_verdicts` does."""
    verdicts = stored_verdicts(store, versions, chosen, answer_versions)
    prompts = prompts_by_slice(store, prompts_of_draw(store, verdicts["draw"][0]), versions)
    tokens, texts = mean_tokens(store, verdicts), partial(judged_texts, store, verdicts)
    return Judged(verdicts, verdicts["judge"][0], verdicts["baseline"][0], tokens, texts, prompts=prompts)


def stored_verdicts(
    store: Store, versions: Versions, chosen: Mapping[str, str | None], answer_versions: Sequence[str] = ()
) -> pl.DataFrame:
    """The verdicts with the wanted baseline, judge_version and draw; null or no value where there is only one.

    Of a model that has some of `answer_versions`, only the verdicts on those answers.

    Every slice with a prompt is a bool column: `topic:<name>`, `category:<tag>`, `question:<category>` and
    `image:<domain>`. Raises BadInput without verdicts, and where several judge versions, draws, baselines or versions
    of a model's answers are left: a board never mixes them.
    """
    of_items = pl.col("protocol").is_in(VISIT_PROTOCOLS)  # they have boards of their own
    every = store.read("verdicts", VERDICT_COLUMNS)
    verdicts = every.filter(~of_items)
    if chosen.get("draw") is None:  # those on the failures are of another benchmark
        verdicts = verdicts.filter(~pl.col("draw").str.starts_with(f"{FAILURES}-"))
    if verdicts.is_empty():
        written = sorted(draw.removeprefix(ITEMS_DRAW) for draw in every.filter(of_items)["draw"].unique())
        bench_hint = f"for its written benchmarks give --bench NAME ({', '.join(written)}), or " if written else ""
        which = " on a drawn benchmark" if written else ""
        raise BadInput(
            f"store {store.root!r} has no verdicts{which}; {bench_hint}make them with `curate judge compare`"
        )
    for column in ("baseline", "judge_version", "draw"):
        value = chosen.get(column)
        stored_values = sorted(verdicts[column].unique())
        option = f"--{column.replace('_', '-')}"
        if value is not None and value not in stored_values:
            raise BadInput(f"{option} {known_values(value, stored_values)}")
        if value is None and len(stored_values) > 1:
            raise BadInput(
                f"a board never mixes verdicts of several {column}s; choose with {option}: {', '.join(stored_values)}"
            )
        verdicts = verdicts.filter(pl.col(column) == (value or stored_values[0]))
    return with_slices(store, _of_versions(verdicts, answer_versions), versions)


def prompts_by_slice(store: Store, question_ids: Sequence[str], versions: Versions) -> dict[str, int]:
    """Slice -> how many of these prompts are in it; empty without prompts."""
    if not question_ids:
        return {}
    slices = _slices(store, question_ids, versions)
    return {"overall": len(question_ids)} | {name: int(slices[name].sum()) for name in slices.columns[1:]}


def mean_tokens(store: Store, verdicts: pl.DataFrame) -> dict[str, float]:
    """Model -> mean tokens of the answers that were judged, of every one by the same count (cl100k_base).

    Services count by vocabularies of their own, some with what the model thought, and submitted answers come without.
    """
    if not (texts := judged_texts(store, verdicts)):
        return {}
    models, _, answer_texts = zip(*texts, strict=True)
    counted = pl.DataFrame({"model": models, "tokens": Providers()["tokens"].count_tokens(answer_texts)})
    return dict(counted.group_by("model").agg(pl.col("tokens").mean()).iter_rows())


def judged_texts(store: Store, verdicts: pl.DataFrame) -> list[tuple[str, str, str]]:
    """(model, question_id, text) of the answers that were judged."""
    answers = store.read("answers", ["model", "question_id", "text", "version"])
    judged = judged_answers(verdicts, "question_id")
    texts = answers.join(judged, on=["question_id", "model", "version"], how="semi")
    return list(texts.select("model", "question_id", "text").iter_rows())


def _of_versions(verdicts: pl.DataFrame, chosen: Sequence[str]) -> pl.DataFrame:
    """The verdicts on the chosen versions of answers. Raises BadInput when a model is left with several."""
    answers = judged_answers(verdicts).unique()
    if unknown := sorted(set(chosen) - set(answers["version"])):
        raise BadInput(f"--answer-version {known_values(unknown[0], set(answers['version']))}")
    taken = answers.filter(pl.col("version").is_in(chosen))
    current_answers = pl.concat([taken, answers.join(taken, on="model", how="anti")])
    for model, several in current_answers.group_by("model").agg(pl.col("version").sort()).sort("model").iter_rows():
        if len(several) > 1:
            raise BadInput(
                f"verdicts on {len(several)} versions of the answers of {model!r} do not mix; choose with "
                f"--answer-version: {', '.join(several)}"
            )
    return on_versions(verdicts, current_answers)


def on_versions(verdicts: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    """The verdicts whose both answers are of the chosen versions (model, version)."""
    for side in ("a", "b"):
        of_side = chosen.rename({"model": f"model_{side}", "version": f"answer_{side}"})
        verdicts = verdicts.join(of_side, on=of_side.columns, how="semi", maintain_order="left")
    return verdicts


def _slices(store: Store, question_ids: Sequence[str], versions: Versions) -> pl.DataFrame:
    """conversation_id, and a bool column for every topic, tag, question category and image domain of the prompts."""
    by_value = {"topic": "topic", "question": "question_category", "image": "image_domain"}
    tags = (*CATEGORIES, *PROMPT_KINDS)
    conversation_ids = pl.Series(question_ids, dtype=pl.String)
    facts = conversation_features(store, conversation_ids, versions, (*tags, *by_value.values(), "topic_id"))
    prompts = facts.with_columns(topic=pl.when(pl.col("topic_id") >= 0).then("topic"))
    chosen = [pl.col(tag).alias(f"category:{tag}") for tag in tags]
    for prefix, column in by_value.items():
        chosen += [
            (pl.col(column) == name).alias(f"{prefix}:{name}") for name in sorted(set(prompts[column].drop_nulls()))
        ]
    return prompts.select("conversation_id", *chosen)


def with_slices(store: Store, verdicts: pl.DataFrame, versions: Versions) -> pl.DataFrame:
    """The verdicts with the slices of their prompts, without categories that are unknown of most verdicts."""
    slices = _slices(store, verdicts["question_id"].unique().to_list(), versions)
    placed = verdicts.join(slices, left_on="question_id", right_on="conversation_id", how="left", maintain_order="left")
    unknown = unknown_shares(placed)
    slice_names = [name for name in slices.columns[1:] if placed[name].any() and unknown.get(name, 0) <= UNKNOWN_MAX]
    return placed.select(*verdicts.columns, *(pl.col(name).fill_null(False) for name in slice_names))
