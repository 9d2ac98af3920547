"""`curate judge submit`: a model's answers to a written benchmark, judged against others', and the board."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import JsonOption, existing, takes
from flows.commands.pipeline import PAID, run_stages
from flows.commands.tables import note, print_rows
from flows.judging.calls import DEFAULT_JUDGE, VISIT_PROTOCOL, with_evaluate
from schemas.benches.judging import STAND_IN, SubmissionRating
from schemas.benches.written import SAMPLED
from schemas.errors import BadInput
from schemas.settings import Settings
from tasks.runtime.untrusted import json_text, one_line

if TYPE_CHECKING:
    from tasks.judging.files.submission_files import Submission
    from tasks.judging.submissions import Plan

_NAMED = 5
"""Items that a line names."""
AnswersArgument = Annotated[
    Path, typer.Argument(help="Answers (.csv, .jsonl, .parquet): item_id, or family and instruction, and prediction.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would be judged and what it would cost.")]
LinesOption = Annotated[
    Path | None, typer.Option("--out", help="Write a JSON line for each battle to this file, for the submitter.")
]


@takes(
    "store", "evaluate.submitted_as", "evaluate.bench", "evaluate.judge", "evaluate.hidden",
    "prompts", *PAID, "seed", "cluster", required=["evaluate.submitted_as"],
    **DEFAULT_JUDGE | {"evaluate.bench": SAMPLED, "evaluate.protocol": VISIT_PROTOCOL},
)  # fmt: skip
def submit(
    settings: Settings,
    answers: AnswersArgument,
    out: LinesOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Judge a model's answers: one opponent an item and some battles with the reference; print the board.

    Answers to a benchmark made on demand are marked by its keys, and its accuracy is printed.
    """
    from flows.before_work import check_before_work
    from tasks.judging.submissions import plan_of

    chosen = settings.evaluate
    if chosen.bench in existing(settings.store).read("generated_benches", ["bench"])["bench"]:  # made on demand
        if chosen.judge != "embedded" or chosen.with_reference or chosen.hidden or out or settings.batch:
            raise BadInput(
                f"--bench {chosen.bench!r} has keys, and no judge is asked; leave out --judge, --hidden, "
                "--set evaluate.with_reference, --out and --batch"
            )
        _submit_keyed(settings, answers, dry_run, as_json)
        return
    if out and (out.is_dir() or not out.parent.is_dir()):
        raise BadInput(f"--out {str(out)!r}: a folder, or in a folder that is not there; give a file in one that is")
    settings = with_evaluate(settings, submission=str(answers))
    check_before_work(settings)
    plan = plan_of(existing(settings.store), settings.evaluate)
    _say_what(plan)
    _say_cost(settings, plan)
    if dry_run:
        return
    reports = run_stages(settings, ("flows.judging.evaluate", "submit"), as_json)
    if not (board := board_in_file(settings.store, reports[-1].result)):
        return
    print_board(board, as_json)
    if out:
        _write_lines(settings, plan, out)


def _submit_keyed(settings: Settings, answers: Path, dry_run: bool, as_json: bool) -> None:
    """Take in a model's answers and print its accuracy, overall and by level. Raises BadInput."""
    import polars as pl

    from flows.products import keyed_items
    from tasks.judging.submissions import keep_answers, read_keyed
    from tasks.storage.lock import writing

    bench, model = settings.evaluate.bench or "", settings.evaluate.submitted_as or ""
    opened = existing(settings.store)
    handed = read_keyed(keyed_items(opened, bench), answers, model)
    _say_read(handed)
    if dry_run:
        note(f"{len(handed.answers):,} answers would be taken in")
        return
    with writing(settings.store) as locked:
        new = keep_answers(locked, handed)
    note(f"{len(handed.answers):,} answers, {new:,} of them new")
    stored_answers = opened.read("answers").filter(pl.col("model") == model, pl.col("version") == handed.version)
    rows = keyed_items(opened, bench).accuracy(stored_answers)
    alone = [row.model_copy(update={"rank": None}) for row in rows]  # a rank needs other models
    print_rows("accuracy", alone, as_json, titled=True)
    note(f"beside other models: `curate bench accuracy --bench {bench}`")


def board_in_file(store: str, file: str | None) -> list[SubmissionRating]:
    """The rows of a board; none without a file: the budget was reached before there was one."""
    lines = (existing(store).read_bytes(file) or b"").splitlines() if file else []
    return [SubmissionRating(**json.loads(line)) for line in lines]


def print_board(board: Sequence[SubmissionRating], as_json: bool) -> None:
    """The board of all items; JSON has every family and column."""
    if as_json:
        for row in board:
            print(json_text(row.model_dump(mode="json")))
        return
    print_rows("overall", [row for row in board if row.slice == "overall"])
    if any(row.judge == STAND_IN for row in board):
        note(f"the judge is the {STAND_IN}; rank nothing in public with it")


def _say_what(plan: "Plan") -> None:
    """Say on stderr what the file holds and what is judged."""
    handed = plan.submission
    _say_read(handed)
    left_out = ", ".join(f"{why.replace('_', ' ')} {count:,}" for why, count in sorted(plan.items.left_out.items()))
    addition = f"; items that are not judged: {left_out}" if left_out else ""
    note(f"{len(handed.answers):,} answers, {len(plan.wanted) // 2:,} battles{addition}")


def _say_read(handed: "Submission") -> None:
    """Rows of the file that do not count, and items without an answer, on stderr."""
    for what, names in (
        ("missing", handed.missing), ("unknown", handed.unknown), ("double", handed.double), ("empty", handed.empty),
        ("of several items", handed.shared),
    ):  # fmt: skip
        if names:
            listed = ", ".join(one_line(name, 60) for name in names[:_NAMED])
            note(f"{what} {len(names):,}: {listed}{' …' if len(names) > _NAMED else ''}")


def _say_cost(settings: Settings, plan: "Plan") -> None:
    from flows.commands.estimate import print_estimates, tokens_in
    from tasks.judging.estimate import estimate_judging
    from tasks.judging.sources import protocol_of
    from tasks.providers.asked_models import to_ask
    from tasks.runtime.budget import load_prices
    from tasks.storage.tables import Store

    for judge in to_ask(settings):
        protocol, prices = protocol_of(settings.evaluate), load_prices(settings.prices)
        rows = estimate_judging(Store(settings.store), plan.wanted, judge, protocol, prices, tokens_in())
        print_estimates(rows, settings, err=True)


def _write_lines(settings: Settings, plan: "Plan", path: Path) -> None:
    from tasks.judging.steps import judge_in_use
    from tasks.judging.submissions import battle_lines
    from tasks.judging.visit_battles import visit_battles, visit_verdicts

    verdicts = visit_verdicts(existing(settings.store), plan.items.bench, judge_in_use(settings))
    lines = list(battle_lines(visit_battles(verdicts), plan.items, settings.evaluate.submitted_as or ""))
    path.write_text("".join(f"{json_text(line)}\n" for line in lines), encoding="utf-8")
    note(f"{len(lines):,} battles without the reference: {path}")
