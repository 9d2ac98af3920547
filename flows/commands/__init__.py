"""The `curate` command: one file for each family of commands. Heavy imports wait until a command needs them."""

import sys

import typer

from schemas.errors import CurateError

app = typer.Typer(
    name="curate",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Turn raw multimodal chat-arena logs into released datasets, a benchmark and leaderboards.",
)


def main() -> None:
    """Entry point: errors a user can mend are one line on stderr and exit status 2, or 3 when a run only waits."""
    from flows.commands import (
        bench,
        check,
        demo,
        diff,
        estimate,
        export,
        ingest,
        look,
        pipeline,
        publish,
        rate,
        review,
        tags,
        takedown,
    )

    for family in (
        pipeline,
        estimate,
        ingest,
        review,
        rate,
        bench,
        look,
        check,
        diff,
        export,
        publish,
        tags,
        takedown,
        demo,
    ):
        family.register(app)
    try:
        app()
    except CurateError as error:
        print(f"curate: {error}", file=sys.stderr)
        raise SystemExit(error.exit_status) from None
