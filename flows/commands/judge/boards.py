"""`curate judge board`: a board from judgement files or from the verdicts of a store, without a call."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from flows.commands.judge.board_agreement import agreement_with
from flows.commands.options import BootstrapsOption, JsonOption, ProviderOption, SeedOption, StyleOption, settings_of
from flows.commands.tables import print_rows
from schemas.errors import BadInput, known_values
from schemas.judging import STAND_IN, BoardMethod, NoVerdict, Orders, ParsedJudgements, Resampled
from schemas.rating import RatingMethod, StylePreset
from schemas.row import Row
from schemas.settings import Settings
from tasks.runtime.untrusted import one_line

if TYPE_CHECKING:
    from schemas.judging import JudgeRating
    from schemas.rating import StyleCoefficient
    from tasks.judging.boards.judged_verdicts import Judged

_BOARDS = ("board", "style_control")
_TABLES = (*_BOARDS, "parsed", "bias", "style_coefficients")

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
    if bench is not None:
        _print_written(store, files, bench, judge_version, seed, as_json)
        return
    _check(files, store, table, slices or [], against, renames, _of_stores(judge_version, draw, answer_version))
    if against and files and files[0].suffix == ".csv":
        from tasks.leaderboard.battle_files import read_board

        _print([agreement_with(read_board(files[0], "overall"), against, renames)], "agreement", as_json)
        return
    if store:
        wanted = {"baseline": baseline, "judge_version": judge_version, "draw": draw}
        judged = _of_store(settings_of(store=store, provider=provider), wanted, answer_version or ())
    else:
        from tasks.judging.boards.judged_verdicts import judged_in_files

        judged = judged_in_files(files or [], baseline, answers or [], whole=table != "parsed")
    about = {"no_verdict": no_verdict, "orders": orders, "interval": interval, "bootstraps": bootstraps, "seed": seed}
    try:
        method = BoardMethod(baseline=judged.baseline, strong_weight=strong_weight, **about)
    except ValidationError:
        raise BadInput(f"--strong-weight {strong_weight}: give a number above 0") from None
    found = _rows(judged, method, table, slices or (), style)
    if against and table in _BOARDS:
        from tasks.judging.boards.judge_board import as_ratings

        _print([agreement_with(as_ratings(found), against, renames)], "agreement", as_json)
        return
    _print(found, table, as_json)
    if table in _BOARDS:
        _note(judged)


def _rows(
    judged: "Judged", method: BoardMethod, table: str, slices: Sequence[str], style: StylePreset
) -> Sequence[Row]:
    """The rows of one of `_TABLES`."""
    from tasks.judging.boards.judge_board import judge_boards

    if table == "parsed":
        return judged.parsed
    if table == "bias":
        return [judged.bias]
    rows = judge_boards(judged.verdicts, method, judged.judge, judged.tokens, slices, judged.prompts)
    if table == "board":
        return rows
    board, coefficients = _style_controlled(rows, judged, method, style)
    return coefficients if table == "style_coefficients" else board


def _of_store(settings: Settings, wanted: dict[str, str | None], answer_versions: Sequence[str]) -> "Judged":
    from tasks.judging.boards.judged_verdicts import judged_in_store
    from tasks.providers import Providers
    from tasks.signals.steps import signal_versions
    from tasks.storage.tables import Store

    versions = signal_versions(Providers(settings.providers))
    return judged_in_store(Store.existing(settings.store), versions, wanted, answer_versions)


def _print_written(
    store: str | None, files: list[Path] | None, bench: str, version: str | None, seed: int, as_json: bool
) -> None:
    """Print the board of a written benchmark."""
    from flows.commands.judge.submit import print_board
    from tasks.judging.boards.submission_boards import stored_board
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


def _style_controlled(
    rows: "Sequence[JudgeRating]", judged: "Judged", method: BoardMethod, preset: StylePreset
) -> "tuple[list[JudgeRating], list[StyleCoefficient]]":
    from tasks.judging.boards.judge_style import style_controlled, style_of_answers
    from tasks.providers import Providers
    from tasks.signals.rules.markdown import markdown

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


def _note(judged: "Judged") -> None:
    """Say on stderr what the board rests on."""
    parsed, bias = judged.parsed, judged.bias
    if bias.judge == STAND_IN:
        what = "it measures how close an answer is to the other models' answers; rank nothing in public with it"
        print(f"curate: the judge is the {STAND_IN}: {what}", file=sys.stderr)
    if parsed:
        kinds = [name for name in ParsedJudgements.model_fields if name != "model"]
        counts = [f"{kind.replace('_', ' ')} {sum(getattr(row, kind) for row in parsed):,}" for kind in kinds]
        print(f"curate: {', '.join(counts)}", file=sys.stderr)
    told = []
    if bias.both_orders:
        told.append(f"{bias.flipped:,} of {bias.both_orders:,} pairs flip with the order")
    if bias.first_seat_fraction is not None:
        told.append(f"{bias.first_seat_fraction:.1%} of decisive verdicts are for the first seat")
    if bias.same_vendor:
        told.append(f"{one_line(bias.judge)} judges models of its own vendor: {one_line(', '.join(bias.same_vendor))}")
    if told:
        print(f"curate: {'; '.join(told)}", file=sys.stderr)
