"""`curate judge`: answers of models to the benchmark, and verdicts on them."""

import typer

from flows.commands import judge_calls


def family() -> typer.Typer:
    """The commands of `curate judge`."""
    judge = typer.Typer(no_args_is_help=True, help="Rank models by a judge's verdicts on their answers.")
    for command in (judge_calls.answer, judge_calls.compare):
        judge.command()(command)
    return judge
