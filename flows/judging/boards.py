"""`curate judge board`: a board from judgement files or from the verdicts of a store, without a call."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from flows.commands.options import JsonOption, existing, measured_versions, takes
from flows.commands.tables import note, print_rows
from flows.judging.correlate import agreement_with
from schemas.benches.judging import STAND_IN, BoardMethod, NoVerdict, Orders, ParsedJudgements, Resampled
from schemas.errors import BadInput, known_values
from schemas.rating import RatingMethod, StylePreset
from schemas.row import Row
from schemas.settings import Settings
from tasks.runtime.untrusted import one_line

if TYPE_CHECKING:
    from schemas.benches.judging import JudgeRating
    from schemas.rating import Rating, StyleCoefficient
    from tasks.judging.boards.judged_verdicts import Judged

_BOARDS = ("board", "style_control")
_TABLES = (*_BOARDS, "parsed", "bias", "style_coefficients", "fragility")
_CAPTIONS = "captions"

JudgementFilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Judgements (.jsonl) as WildVision-Bench or Arena-Hard write them, folders of them, or with --agreement "
        "one finished board (.csv)."
    ),
]
AnswersOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--answers", help="Answer files or folders, for mean tokens, question ids and style control; repeatable."
    ),
]
JudgeTableOption = Annotated[
    str,
    typer.Option(
        "--table",
        help="board, parsed (what the judgement texts hold), bias (of the judge), style_control, style_coefficients or "
        "fragility (how few prompts change the order); with --bench board, or captions (the judge with those for the "
        "instruction and with generic ones).",
    ),
]
NoVerdictOption = Annotated[
    NoVerdict, typer.Option("--no-verdict", help="What a comparison without a verdict counts as in the score.")
]
OrdersOption = Annotated[
    Orders, typer.Option("--orders", help="each verdict is a vote, or one vote a prompt where both orders agree.")
]
ResampledOption = Annotated[
    Resampled, typer.Option("--resampled", help="What the bootstrap draws: whole prompts, or rows as published.")
]
WeightOption = Annotated[float, typer.Option("--strong-weight", help="Votes that a strong verdict counts as.")]
JudgeSlicesOption = Annotated[
    list[str] | None, typer.Option("--slice", help="Slice such as topic:Charts or category:ocr, or all; repeatable.")
]
JudgeAgreementOption = Annotated[
    Path | None, typer.Option("--agreement", help="Print the agreement with this board, a table of ratings or scores.")
]
RenamesOption = Annotated[
    Path | None, typer.Option("--renames", help="YAML file with `our model: its name in the other board` lines.")
]
AnswerVersionOption = Annotated[
    list[str] | None,
    typer.Option("--answer-version", help="Version of a model's answers, where verdicts are on several; repeatable."),
]
DrawOption = Annotated[str | None, typer.Option("--draw", help="Draw of the benchmark, where a store has several.")]


@dataclass(frozen=True)
class _View:
    """Rows to print: of `table`, or their agreement with a board, whose names of models `renames` gives."""

    table: str
    slices: list[str]
    agreement: Path | None
    renames: Path | None
    as_json: bool


@takes(
    "store", "evaluate.bench", "evaluate.baseline", "judge_version", "providers", "bootstraps", "seed",
    store="",
)  # fmt: skip
def board(
    settings: Settings,
    files: JudgementFilesArgument = None,
    answers: AnswersOption = None,
    as_json: JsonOption = False,
    table: JudgeTableOption = "board",
    no_verdict: NoVerdictOption = NoVerdict.DROP,
    orders: OrdersOption = Orders.EACH,
    resampled: ResampledOption = Resampled.PROMPTS,
    strong_weight: WeightOption = 3.0,
    slices: JudgeSlicesOption = None,
    agreement: JudgeAgreementOption = None,
    renames: RenamesOption = None,
    draw: DrawOption = None,
    answer_version: AnswerVersionOption = None,
) -> None:
    """Rank models by a judge's verdicts: win rate against a baseline, five counts, and how far to trust the judge.

    Of judgement files, or with --store of the verdicts of a store; with --bench, by the battles of a judge without
    images on a written benchmark.
    """
    view = _View(table, slices or [], agreement, renames, as_json)
    if settings.evaluate.bench is not None:
        _print_written(settings, files, view)
        return
    _check(files, settings, view, {"--draw": draw, "--answer-version": answer_version})
    if files and files[0].suffix == ".csv":
        from tasks.leaderboard.battle_files import read_board

        _print_agreement(read_board(files[0], "overall"), view)
        return
    if settings.store:
        from tasks.judging.boards.judged_verdicts import judged_in_store

        choices = {"baseline": settings.evaluate.baseline, "judge_version": settings.judge_version, "draw": draw}
        versions = measured_versions(settings)
        judged = judged_in_store(existing(settings.store), versions, choices, answer_version or ())
    else:
        from tasks.judging.boards.judged_verdicts import judged_in_files

        whole = view.table != "parsed"
        judged = judged_in_files(files or [], settings.evaluate.baseline, answers or [], whole=whole)
    counted = {"no_verdict": no_verdict, "orders": orders, "interval": resampled, "strong_weight": strong_weight}
    _print_board(judged, _method(judged, settings, counted), view, settings.style_preset)


def _method(judged: "Judged", settings: Settings, counted: dict[str, Any]) -> BoardMethod:
    try:
        return BoardMethod(baseline=judged.baseline, bootstraps=settings.bootstraps, seed=settings.seed, **counted)
    except ValidationError:
        raise BadInput(f"--strong-weight {counted['strong_weight']}: give a number above 0") from None


def _print_board(judged: "Judged", method: BoardMethod, view: _View, style: StylePreset) -> None:
    rows = _rows(judged, method, view.table, view.slices, style)
    if view.agreement and view.table in _BOARDS:
        from tasks.judging.boards.judge_board import as_ratings

        _print_agreement(as_ratings(rows), view)
        return
    print_rows(view.table, rows, view.as_json)
    if view.table in _BOARDS:
        _note(judged)


def _print_agreement(board: "Sequence[Rating]", view: _View) -> None:
    assert view.agreement
    print_rows("agreement", [agreement_with(board, view.agreement, view.renames)], view.as_json)


def _rows(
    judged: "Judged", method: BoardMethod, table: str, slices: Sequence[str], style: StylePreset
) -> Sequence[Row]:
    from tasks.judging.boards.judge_board import judge_boards, judge_fragility

    if table == "parsed":
        return judged.parsed
    if table == "bias":
        return [judged.bias]
    rows = judge_boards(judged.verdicts, method, judged.judge, judged.tokens, slices, judged.prompts)
    if table == "board":
        return rows
    if table == "fragility":
        return judge_fragility(judged.verdicts, method, list(dict.fromkeys(row.slice for row in rows)))
    board, coefficients = _style_controlled(rows, judged, method, style)
    return coefficients if table == "style_coefficients" else board


def _print_written(settings: Settings, files: list[Path] | None, view: _View) -> None:
    """Print the board of a written benchmark, or the judge with both sets of captions."""
    from flows.judging.submit import print_board
    from tasks.judging.boards.submission_boards import captions_compared, stored_board

    if not settings.store or files:
        raise BadInput("--bench names a written benchmark of a store; give --store DIR and no files")
    if view.table not in ("board", _CAPTIONS):
        raise BadInput(f"--table {known_values(view.table, ('board', _CAPTIONS))} The others have no written benchmark")
    bench, method, store = (settings.evaluate.bench or "", RatingMethod(seed=settings.seed), existing(settings.store))
    if view.table == _CAPTIONS:
        print_rows(_CAPTIONS, captions_compared(store, bench, settings.judge_version), view.as_json)
        return
    print_board(stored_board(store, bench, settings.judge_version, method, True), view.as_json)


def _check(files: list[Path] | None, settings: Settings, view: _View, of_stores: dict[str, Any]) -> None:
    """Raises BadInput for options that have no effect together; `of_stores` are some that only a store has."""
    if (not files) == (not settings.store):
        raise BadInput("give either judgement files or --store DIR")
    if view.table not in _TABLES:
        raise BadInput(f"--table {known_values(view.table, _TABLES)}")
    if view.agreement and ("all" in view.slices or len(view.slices) > 1):
        raise BadInput("--agreement compares one board; give one --slice, or none for the board of all prompts")
    alone = view.agreement and len(files or ()) == 1
    if finished := [file for file in files or () if file.suffix == ".csv" and not alone]:
        raise BadInput(
            f"{str(finished[0])!r} is a finished board; give it alone with --agreement BOARD to compare both, or give "
            "judgements (.jsonl)"
        )
    if view.renames and not view.agreement:
        raise BadInput("--renames needs --agreement BOARD, whose models it names")
    store_options = [name for name, value in {"--judge-version": settings.judge_version, **of_stores}.items() if value]
    if files and store_options:
        raise BadInput(f"{store_options[0]} chooses from the verdicts of a store; leave it out for files")


def _style_controlled(
    rows: "Sequence[JudgeRating]", judged: "Judged", method: BoardMethod, preset: StylePreset
) -> "tuple[list[JudgeRating], list[StyleCoefficient]]":
    from tasks.judging.boards.judge_board import style_controlled, style_of_answers
    from tasks.providers import Providers
    from tasks.signals.rules.texts import markdown

    if method.interval is Resampled.ROWS:
        raise BadInput("--resampled rows: style control resamples whole prompts; leave the option out")
    if not (texts := judged.texts()):
        raise BadInput("style control needs the judged answers; give their files with --answers")
    style = style_of_answers(texts, Providers()["tokens"].count_tokens, markdown)
    board, coefficients, left_out = style_controlled(rows, judged.verdicts, style, method, preset)
    if left_out:
        note(f"note: {left_out:,} verdicts lack the text of an answer; left out")
    return board, coefficients


def _note(judged: "Judged") -> None:
    parsed, bias = judged.parsed, judged.bias
    if bias.judge == STAND_IN:
        what = "it measures how close an answer is to the other models' answers; rank nothing in public with it"
        note(f"the judge is the {STAND_IN}: {what}")
    if parsed:
        kinds = [name for name in ParsedJudgements.model_fields if name != "model"]
        counts = [f"{kind.replace('_', ' ')} {sum(getattr(row, kind) for row in parsed):,}" for kind in kinds]
        note(f"{', '.join(counts)}")
    findings = []
    if bias.both_orders:
        findings.append(f"{bias.flipped:,} of {bias.both_orders:,} pairs flip with the order")
    if bias.first_seat_fraction is not None:
        findings.append(f"{bias.first_seat_fraction:.1%} of decisive verdicts are for the first seat")
    if bias.same_vendor:
        findings.append(
            f"{one_line(bias.judge)} judges models of its own vendor: {one_line(', '.join(bias.same_vendor))}"
        )
    if findings:
        note(f"{'; '.join(findings)}")
