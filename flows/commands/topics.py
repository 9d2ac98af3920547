"""`curate topics`: the topics of a store."""

from typing import Annotated

import typer

from flows.commands.options import JsonOption, StoreOption
from flows.commands.tables import print_rows
from schemas.errors import BadInput


def family() -> typer.Typer:
    """The subcommands of `curate topics`."""
    topics = typer.Typer(no_args_is_help=True, help="Topics of the kept prompts.")
    topics.callback()(lambda: None)  # without it, typer makes the only subcommand the command itself
    topics.command()(show)
    return topics


def show(
    store: StoreOption,
    first: Annotated[int, typer.Option("--first", min=1, help="Topics to list, the largest first.")] = 30,
    as_json: JsonOption = False,
) -> None:
    """Topics with their names, and the prompts and conversations in each; -1 holds the outliers."""
    from tasks.storage.queries.benches.bench import topic_sizes
    from tasks.storage.tables import Store

    topics = topic_sizes(Store.existing(store))
    if topics.is_empty():
        raise BadInput(f"store {store!r} has no topics; `curate sample` finds them")
    rows = topics.to_dicts()
    print_rows("topics", rows if as_json else rows[:first], as_json)
    if len(rows) > first and not as_json:
        print(f"… {len(rows) - first:,} more; all with --first {len(rows)}")
