"""`curate judge`: answers of models to the benchmark, a judge's verdicts on them, and boards from verdicts."""

import typer

from flows.commands.agreement import agree, metrics
from flows.commands.judge import boards, calls, submit


def family() -> typer.Typer:
    """The commands of `curate judge`."""
    judge = typer.Typer(no_args_is_help=True, help="Rank models by a judge's verdicts on their answers.")
    of_calls = (calls.answer, calls.compare, submit.submit)
    for command in (*of_calls, boards.board, agree.agree, agree.votes, metrics.metrics):
        judge.command()(command)
    return judge
