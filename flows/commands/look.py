"""`curate inspect`, `curate duplicates` and `curate explain`: inspect items without running the pipeline."""

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.commands.options import JsonOption, takes
from flows.commands.tables import note
from schemas.errors import BadInput
from schemas.policy import SemanticImages
from schemas.settings import Settings
from tasks.runtime.untrusted import json_text, one_line

SemanticOption = Annotated[
    bool,
    typer.Option(
        "--semantic", help="Also pairs whose embeddings are close: crops, mirror images, and different receipts too."
    ),
]


@takes("providers", "prompts", store="")
def inspect(
    settings: Settings,
    files: Annotated[list[Path], typer.Argument(help="Images, or JSONL files whose lines have a `text`.")],
    as_json: JsonOption = False,
) -> None:
    """Print every signal of image files or JSONL texts; no store is needed."""
    from tasks.providers import Providers
    from tasks.signals.loose_files import inspect_files

    for inspected in inspect_files(files, Providers(settings.providers)):
        if as_json:
            print(json_text(inspected), flush=True)
            continue
        print(one_line(str(inspected["item"])))
        for name, values in inspected["signals"].items():
            short_values = {key: value for key, value in values.items() if key != "vector"}
            if "vector" in values:
                short_values["dimensions"] = len(values["vector"])
            print(f"  {name:<16} {json_text(short_values)[:400]}")


@takes("providers", store="")
def duplicates(
    settings: Settings,
    folder: Annotated[Path, typer.Argument(help="Folder of images, searched with everything below it.")],
    as_json: JsonOption = False,
    semantic: SemanticOption = False,
) -> None:
    """Exact and near-duplicate images: pairs with their distance, then groups."""
    from tasks.dedup.loose_files import loose_duplicates
    from tasks.providers import Providers

    if not folder.is_dir():
        raise BadInput(f"{str(folder)!r} does not exist or is not a folder")
    radius = SemanticImages() if semantic else None
    compared = loose_duplicates(folder, Providers(settings.providers), settings.workers, radius)
    for name, reason in compared.rejected:
        note(f"{one_line(name)} left out: {reason}")
    rows: list[dict[str, Any]] = [pair._asdict() for pair in compared.pairs]
    rows += [{"group": group, "representative": group[0]} for group in compared.groups]
    for row in rows:
        print(json_text(row) if as_json else _in_words(row))
    if not as_json:
        print(f"{compared.images} images, {len(compared.pairs)} pairs, {len(compared.groups)} groups")


def _in_words(row: dict[str, Any]) -> str:
    if "group" in row:
        return f"group of {len(row['group'])}: " + ", ".join(map(one_line, row["group"]))
    return f"{row['relation']:<11} {row['distance']:>6}  {one_line(row['a'])}  {one_line(row['b'])}"


@takes("store", others=False)
def explain(
    settings: Settings,
    item: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="Conversation, battle, image or user id, logged image name, image file or its MD5, the end of an "
            "address of `curate view`, or LOGFILE:LINE.",
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Why an item was kept or dropped, in at most five lines; --json has every signal used."""
    from flows.accounts import item_account

    account = item_account(settings.store, item, with_sentences=not as_json, with_signals=as_json)
    for line in [json_text(account.facts)] if as_json else account.sentences:
        print(line)
