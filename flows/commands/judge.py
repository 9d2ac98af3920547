"""`curate judge`: answers of models to the benchmark, a judge's verdicts on them, and boards from verdicts."""

import typer

from flows.commands import judge_boards, judge_calls
from flows.commands.agreement import agree, sheet, votes


def family() -> typer.Typer:
    """The commands of `curate judge`."""
    judge = typer.Typer(no_args_is_help=True, help="Rank models by a judge's verdicts on their answers.")
    for command in (judge_calls.answer, judge_calls.compare, judge_boards.board, agree.agree, votes.votes, sheet.sheet):
        judge.command()(command)
    return judge
