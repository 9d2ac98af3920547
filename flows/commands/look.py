"""`curate inspect`, `curate duplicates` and `curate explain`: inspect items without running the pipeline."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.options import JsonOption, takes
from flows.commands.tables import note
from schemas.errors import BadInput
from schemas.policy import SemanticImages
from schemas.settings import Settings
from tasks.runtime.untrusted import json_text, one_line

if TYPE_CHECKING:
    from tasks.storage.tables import Store

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
    from tasks.signals.loose_files import inspect_file

    for file in files:
        if not file.is_file():
            what = "is a folder; name the files in it" if file.is_dir() else "does not exist"
            raise BadInput(f"{str(file)!r} {what}")
    providers = Providers(settings.providers)
    for file in files:
        for inspected in inspect_file(file, providers):
            if as_json:
                print(json_text(inspected), flush=True)
            else:
                print(one_line(inspected["item"]))
                for name, values in inspected["signals"].items():
                    shown = {key: value for key, value in values.items() if key != "vector"}
                    if "vector" in values:
                        shown["dimensions"] = len(values["vector"])
                    print(f"  {name:<16} {json_text(shown)[:400]}")


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
    found = loose_duplicates(folder, Providers(settings.providers), settings.workers, radius)
    for name, reason in found.rejected:
        note(f"{one_line(name)} left out: {reason}")
    rows: list[dict[str, Any]] = [pair._asdict() for pair in found.pairs]
    rows += [{"group": group, "representative": group[0]} for group in found.groups]
    for row in rows:
        print(json_text(row) if as_json else _in_words(row))
    if not as_json:
        print(f"{found.images} images, {len(found.pairs)} pairs, {len(found.groups)} groups")


def _named_in_the_explorer(store: "Store", address: str) -> str:
    """The conversation or battle whose page in the explorer ends in these 16 hex digits; the text itself if none."""
    from tasks.shown import BATTLE, CONVERSATION, item_key

    if re.fullmatch("[0-9a-f]{16}", address):
        queries = {
            CONVERSATION: "SELECT conversation_id AS item_id FROM conversations",
            BATTLE: "SELECT battle_id AS item_id FROM battles",
        }
        for kind, query in queries.items():
            for item_ids in store.batches(query):
                for item_id in item_ids["item_id"]:
                    if item_key(kind, item_id) == address:
                        return str(item_id)
    return address


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
    from tasks.storage.readable import ReadableStore

    of_store = ReadableStore.existing(settings.store, any_layout=True)
    try:
        lines = of_store.again(lambda: _account_lines(of_store, item, as_json))
    finally:
        for problem in of_store.problems:
            note(problem)
    for line in lines:
        print(line)


def _account_lines(store: "Store", item: str, as_json: bool) -> list[str]:
    """The account of an item in sentences, or in one line of JSON. Raises BadInput when the store does not have it."""
    from schemas.tables import SIGNALS
    from tasks.policy.explained import explained
    from tasks.storage.queries.explain import explain_item
    from tasks.storage.queries.stored_items import StoredItems
    from tasks.takedown.scope import known_as, taken_down

    def names() -> Iterator[str]:
        yield item
        if (listed := _named_in_the_explorer(store, item)) != item:
            yield listed
        yield from (name for name in known_as(store, item) if name != item)

    for name in names():
        if account := explain_item(store, name, SIGNALS if as_json else ()):
            return [json_text(account)] if as_json else explained(StoredItems(store, [name]), account)
    absent = f"is not in store {store.root!r}"
    gone = "was taken down from this store" if taken_down(store, known_as(store, item)) else absent
    raise BadInput(f"{item!r} {gone}; give an ID that `curate takedown` takes, or LOGFILE:LINE")
