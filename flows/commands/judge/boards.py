"""`curate judge board`: a board from judgement files or from the verdicts of a store, without a call."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from flows.commands.judge.board_agreement import agreement_with
from flows.commands.options import BootstrapsOption, JsonOption, ProviderOption, SeedOption, StyleOption, settings_of
from flows.commands.tables import print_rows
from schemas.errors import BadInput, known_values
from schemas.judging import STAND_IN, BoardMethod, JudgeBias, NoVerdict, Orders, ParsedJudgements, Resampled
from schemas.rating import RatingMethod, StylePreset
from schemas.row import Row
from schemas.settings import Settings
from tasks.runtime.untrusted import one_line

if TYPE_CHECKING:
    import polars as pl

    from schemas.judging import JudgeRating
    from schemas.rating import StyleCoefficient

_STYLE_TABLES = ("style_control", "style_coefficients")
_TABLES = ("board", "parsed", "bias", *_STYLE_TABLES)

FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Judgements (.jsonl) as WildVision-Bench or Arena-Hard write them, folders of them, or with --against one "
        "finished board (.csv)."
    ),
]
StoreInstead = Annotated[str | None, typer.Option("--store", help="Use the verdicts of this store instead.")]
BaselineOption = Annotated[
    str | None,
    typer.Option(
        "--baseline", help="Model that the others were compared with; its score is 50.", show_default="what files say"
    ),
]
AnswersOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--answers", help="Answer files or folders, for mean tokens, question ids and style control; repeatable."
    ),
]
TableOption = Annotated[
    str,
    typer.Option(
        "--table",
        help="board, parsed (what the judgement texts hold), bias (of the judge), style_control or style_coefficients.",
    ),
]
NoVerdictOption = Annotated[
    NoVerdict, typer.Option("--no-verdict", help="What a comparison without a verdict counts as in the score.")
]
OrdersOption = Annotated[
    Orders, typer.Option("--orders", help="each verdict is a vote, or one vote a prompt where both orders agree.")
]
ResampledOption = Annotated[
    Resampled, typer.Option("--interval", help="What the bootstrap draws: whole prompts, or rows as published.")
]
WeightOption = Annotated[float, typer.Option("--strong-weight", help="Votes that a strong verdict counts as.")]
SlicesOption = Annotated[
    list[str] | None, typer.Option("--slice", help="Slice such as topic:Charts or category:ocr, or all; repeatable.")
]
AgainstOption = Annotated[
    Path | None, typer.Option("--against", help="Print the agreement with this board, a table of ratings or scores.")
]
RenamesOption = Annotated[
    Path | None, typer.Option("--renames", help="YAML file with `our model: its name in the other board` lines.")
]
BenchOption = Annotated[
    str | None, typer.Option("--bench", help="The board of this written benchmark of the store (docs/submissions.md).")
]
VersionOption = Annotated[str | None, typer.Option("--judge-version", help="Judge version, where a store has several.")]
AnswerVersionOption = Annotated[
    list[str] | None,
    typer.Option("--answer-version", help="Version of a model's answers, where verdicts are on several; repeatable."),
]
DrawOption = Annotated[str | None, typer.Option("--draw", help="Draw of the benchmark, where a store has several.")]


def board(
    files: FilesArgument = None,
    store: StoreInstead = None,
    baseline: BaselineOption = None,
    answers: AnswersOption = None,
    as_json: JsonOption = False,
    table: TableOption = "board",
    no_verdict: NoVerdictOption = NoVerdict.DROP,
    orders: OrdersOption = Orders.EACH,
    interval: ResampledOption = Resampled.PROMPTS,
    strong_weight: WeightOption = 3.0,
    slices: SlicesOption = None,
    against: AgainstOption = None,
    renames: RenamesOption = None,
    judge_version: VersionOption = None,
    draw: DrawOption = None,
    answer_version: AnswerVersionOption = None,
    provider: ProviderOption = None,
    style: StyleOption = StylePreset.FASTCHAT,
    bootstraps: BootstrapsOption = 100,
    seed: SeedOption = 0,
    bench: BenchOption = None,
) -> None:
    """Rank models by a judge's verdicts: win rate against a baseline, five counts, and how far to trust the judge.

    With --bench, by the battles of a judge without images on a written benchmark.
    """
    from tasks.leaderboard.judged.bias import judge_bias
    from tasks.leaderboard.judged.board import as_ratings, judge_boards, outcomes

    if bench is not None:
        _of_written(store, files, bench, judge_version, seed, as_json)
        return
    of_store = _of_stores(judge_version, draw, answer_version)
    _check(files, store, table, slices or [], against, renames, of_store)
    if files and len(files) == 1 and files[0].suffix == ".csv" and against:
        from tasks.leaderboard.battle_files import read_board

        _print([agreement_with(read_board(files[0], "overall"), against, renames)], "agreement", as_json)
        return
    if store:
        wanted = {"baseline": baseline, "judge_version": judge_version, "draw": draw}
        judged = _of_store(settings_of(store=store, provider=provider), wanted, answer_version or ())
    else:
        judged = _of_files(files or [], baseline, answers or [], table)
    try:
        method = BoardMethod(
            baseline=judged.baseline,
            strong_weight=strong_weight,
            no_verdict=no_verdict,
            orders=orders,
            interval=interval,
            bootstraps=bootstraps,
            seed=seed,
        )
    except ValidationError:
        raise BadInput(f"--strong-weight {strong_weight}: give a number above 0") from None
    bias = judge_bias(outcomes(judged.verdicts, judged.baseline), judged.judge, judged.baseline)
    if table == "parsed":
        _print(judged.parsed, table, as_json)
    elif table == "bias":
        _print([bias], table, as_json)
    else:
        rows = judge_boards(judged.verdicts, method, judged.judge, judged.tokens, slices or (), judged.prompts)
        if table in _STYLE_TABLES:
            rows, coefficients = _style_controlled(rows, judged, method, style)
            if table == "style_coefficients":
                _print(coefficients, table, as_json)
                return
        if against:
            _print([agreement_with(as_ratings(rows), against, renames)], "agreement", as_json)
            return
        _print(rows, table, as_json)
        _note(judged.parsed, bias)


def _of_written(
    store: str | None, files: list[Path] | None, bench: str, version: str | None, seed: int, as_json: bool
) -> None:
    """Print the board of a written benchmark."""
    from flows.commands.judge.submit import print_board
    from tasks.leaderboard.submissions.stored import stored_board
    from tasks.storage.tables import Store

    if store is None or files:
        raise BadInput("--bench names a written benchmark of a store; give --store DIR and no files")
    print_board(stored_board(Store.existing(store), bench, version, RatingMethod(seed=seed), True), as_json)


def _check(
    files: list[Path] | None,
    store: str | None,
    table: str,
    slices: list[str],
    against: Path | None,
    renames: Path | None,
    of_store: str | None,
) -> None:
    """Raises BadInput for options that have no effect together; `of_store` is one that only a store has."""
    if (not files) == (store is None):
        raise BadInput("give either judgement files or --store DIR")
    if table not in _TABLES:
        raise BadInput(f"--table {known_values(table, _TABLES)}")
    if against and ("all" in slices or len(slices) > 1):
        raise BadInput("--against compares one board; give one --slice, or none for the board of all prompts")
    if finished := [file for file in files or () if file.suffix == ".csv" and not (against and len(files or ()) == 1)]:
        raise BadInput(
            f"{str(finished[0])!r} is a finished board; give it alone with --against BOARD to compare both, or give "
            "judgements (.jsonl)"
        )
    if renames and not against:
        raise BadInput("--renames needs --against BOARD, whose models it names")
    if files and of_store:
        raise BadInput(f"{of_store} chooses from the verdicts of a store; leave it out for files")


def _of_stores(judge_version: str | None, draw: str | None, answer_version: list[str] | None) -> str | None:
    """The first given option of those that only a store has."""
    given = {"--judge-version": judge_version, "--draw": draw, "--answer-version": answer_version}
    return next((name for name, value in given.items() if value), None)


@dataclass(frozen=True)
class _Judged:
    """Verdicts of one judge on one draw."""

    verdicts: "pl.DataFrame"
    judge: str
    baseline: str
    tokens: dict[str, float]
    """Model -> mean tokens of its answers."""
    texts: Callable[[], Sequence[tuple[str, str, str]]]
    """Reads the judged answers: model, question and text."""
    parsed: Sequence[ParsedJudgements] = ()
    prompts: dict[str, int] = field(default_factory=dict)
    """Slice -> prompts of the draw; empty when the draw is not known."""


def _of_files(files: list[Path], baseline: str | None, answers: list[Path], table: str) -> _Judged:
    from tasks.evaluate.files.answer_files import texts_of_files
    from tasks.evaluate.files.answer_lengths import answer_lengths
    from tasks.evaluate.files.judgement_files import check_labels, parsed, read_judgements

    found = read_judgements(files, baseline)
    if table != "parsed":
        check_labels(found)
    tokens: dict[str, float] = {}
    if answers:
        lengths = answer_lengths(answers)
        if found.baseline not in lengths.models:
            raise BadInput(f"no answers of the baseline {known_values(found.baseline, lengths.models)}")
        if unknown := sorted(set(found.verdicts["question_id"]) - lengths.questions):
            raise BadInput(f"question {unknown[0]!r} is judged, but {len(unknown)} such questions have no answer")
        tokens = lengths.models
    texts = partial(texts_of_files, answers)
    return _Judged(found.verdicts, found.judge, found.baseline, tokens, texts, parsed(found))


def _of_store(settings: Settings, wanted: dict[str, str | None], answer_versions: Sequence[str]) -> _Judged:
    from tasks.evaluate.questions import prompts_of_draw
    from tasks.leaderboard.judged.stored_verdicts import judged_texts, mean_tokens, prompts_by_slice, stored_verdicts
    from tasks.providers import Providers
    from tasks.signals.steps import signal_versions
    from tasks.storage.tables import Store

    store, versions = Store.existing(settings.store), signal_versions(Providers(settings.providers))
    verdicts = stored_verdicts(store, versions, wanted, answer_versions)
    prompts = prompts_by_slice(store, prompts_of_draw(store, verdicts["draw"][0]), versions)
    tokens, texts = mean_tokens(store, verdicts), partial(judged_texts, store, verdicts)
    return _Judged(verdicts, verdicts["judge"][0], verdicts["baseline"][0], tokens, texts, prompts=prompts)


def _style_controlled(
    rows: "Sequence[JudgeRating]", judged: _Judged, method: BoardMethod, preset: StylePreset
) -> "tuple[list[JudgeRating], list[StyleCoefficient]]":
    from tasks.leaderboard.judged.style import style_controlled, style_of_answers
    from tasks.providers import Providers
    from tasks.signals.markdown import markdown

    if method.interval is Resampled.ROWS:
        raise BadInput("--interval rows: style control resamples whole prompts; leave the option out")
    if not (texts := judged.texts()):
        raise BadInput("style control needs the judged answers; give their files with --answers")
    style = style_of_answers(texts, Providers()["tokens"].count_tokens, markdown)
    board, coefficients, left_out = style_controlled(rows, judged.verdicts, style, method, preset)
    if left_out:
        print(f"curate: note: {left_out:,} verdicts lack the text of an answer; left out", file=sys.stderr)
    return board, coefficients


def _print(rows: Sequence[Row], table: str, as_json: bool) -> None:
    if not as_json:
        print_rows(table, rows)
        return
    for row in rows:
        print(json.dumps(row.model_dump(mode="json")))


def _note(parsed: Sequence[ParsedJudgements], bias: JudgeBias) -> None:
    """What the board rests on, on stderr."""
    if bias.judge == STAND_IN:
        told = "it measures how close an answer is to the other models' answers; rank nothing in public with it"
        print(f"curate: the judge is the {STAND_IN}: {told}", file=sys.stderr)
    if parsed:
        counted = {
            name: sum(getattr(row, name) for row in parsed) for name in ParsedJudgements.model_fields if name != "model"
        }
        told = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counted.items())
        print(f"curate: {told}", file=sys.stderr)
    flips = f"{bias.flipped:,} of {bias.both_orders:,} pairs flip with the order; " if bias.both_orders else ""
    seat = (
        ""
        if bias.first_seat_fraction is None
        else f"{bias.first_seat_fraction:.1%} of decisive verdicts are for the first seat; "
    )
    vendor = (
        f"{one_line(bias.judge)} judges models of its own vendor: {one_line(', '.join(bias.same_vendor))}"
        if bias.same_vendor
        else ""
    )
    if flips or seat or vendor:
        print(f"curate: {flips}{seat}{vendor}".rstrip("; "), file=sys.stderr)
