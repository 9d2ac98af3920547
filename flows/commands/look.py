"""`curate inspect`, `curate duplicates` and `curate explain`: inspect items without running the pipeline."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.commands.options import JsonOption, ProviderOption, StoreOption, settings_of
from schemas.errors import BadInput
from schemas.policy import SemanticImages
from tasks.runtime.untrusted import json_text, one_line

SemanticOption = Annotated[
    bool,
    typer.Option(
        "--semantic", help="Also pairs whose embeddings are close: crops, mirror images, and different receipts too."
    ),
]


def inspect(
    files: Annotated[list[Path], typer.Argument(help="Images, or JSONL files whose lines have a `text`.")],
    as_json: JsonOption = False,
    provider: ProviderOption = None,
) -> None:
    """Print every signal of image files or JSONL texts; no store is needed."""
    from tasks.providers import Providers
    from tasks.signals.loose_files import inspect_file

    for file in files:
        if not file.is_file():
            what = "is a folder; name the files in it" if file.is_dir() else "does not exist"
            raise BadInput(f"{str(file)!r} {what}")
    providers = Providers(settings_of(store="", provider=provider).providers)
    for file in files:
        for inspected in inspect_file(file, providers):
            if as_json:
                print(json_text(inspected), flush=True)
            else:
                _print_signals(inspected)


def _print_signals(inspected: dict[str, Any]) -> None:
    print(one_line(inspected["item"]))
    for name, values in inspected["signals"].items():
        shown = {key: value for key, value in values.items() if key != "vector"}
        if "vector" in values:
            shown["dimensions"] = len(values["vector"])
        print(f"  {name:<16} {json_text(shown)[:400]}")


def duplicates(
    folder: Annotated[Path, typer.Argument(help="Folder of images, searched with everything below it.")],
    as_json: JsonOption = False,
    semantic: SemanticOption = False,
    provider: ProviderOption = None,
) -> None:
    """Exact and near-duplicate images: pairs with their distance, then groups."""
    from tasks.dedup.loose_files import loose_duplicates
    from tasks.providers import Providers

    if not folder.is_dir():
        raise BadInput(f"{str(folder)!r} does not exist or is not a folder")
    settings = settings_of(store="", provider=provider)
    radius = SemanticImages() if semantic else None
    found = loose_duplicates(folder, Providers(settings.providers), settings.workers, radius)
    for name, reason in found.rejected:
        print(f"curate: {one_line(name)} left out: {reason}", file=sys.stderr)
    rows: list[dict[str, Any]] = [pair._asdict() for pair in found.pairs]
    rows += [{"group": group, "representative": group[0]} for group in found.groups]
    for row in rows:
        print(json_text(row) if as_json else _in_words(row))
    if not as_json:
        print(f"{found.pictures} images, {len(found.pairs)} pairs, {len(found.groups)} groups")


def _in_words(row: dict[str, Any]) -> str:
    if "group" in row:
        return f"group of {len(row['group'])}: " + ", ".join(map(one_line, row["group"]))
    return f"{row['relation']:<11} {row['distance']:>6}  {one_line(row['a'])}  {one_line(row['b'])}"


def explain(
    item: Annotated[str, typer.Argument(metavar="ID", help="Conversation, battle or image id, or LOGFILE:LINE.")],
    store: StoreOption,
    as_json: JsonOption = False,
) -> None:
    """Why a conversation, battle, image or log line was kept or dropped, with every signal used."""
    from tasks.storage.queries.explain import explain_item
    from tasks.storage.tables import Store

    account = explain_item(Store.existing(store), item)
    if account is None:
        raise BadInput(f"{item!r} is not a conversation, battle, image or log line of this store")
    print(json_text(account, indent=None if as_json else 2))
