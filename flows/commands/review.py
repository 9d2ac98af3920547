"""`curate review`: held conversations and reviewers' verdicts."""

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import StoreOption


def review(
    store: StoreOption,
    file: Annotated[Path | None, typer.Argument(help="The list with its `verdict` column filled in.")] = None,
) -> None:
    """Print held conversations as CSV; with a filled-in FILE, store its verdicts for the next decisions."""
    from tasks.policy.review import held_csv, take_verdicts
    from tasks.storage.lock import writing
    from tasks.storage.tables import Store

    opened = Store.existing(store)
    if file is None:
        print(held_csv(opened), end="")
        return
    with writing(store):
        taken = take_verdicts(opened, file)
    print(f"{taken['release']} to release, {taken['drop']} to drop; `curate decide` or `curate run` applies them")
