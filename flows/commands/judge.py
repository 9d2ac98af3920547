"""`curate judge`: boards of models from a judge's verdicts."""

import typer

from flows.commands import judge_boards


def family() -> typer.Typer:
    """The commands of `curate judge`."""
    judge = typer.Typer(no_args_is_help=True, help="Rank models by a judge's verdicts on their answers.")
    judge.command()(judge_boards.board)
    return judge
