"""`curate bench demo`: drawn items with planted faults are collected, rated and decided on."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.bench.written import take_in
from flows.commands.options import settings_of
from schemas.run import StageReport
from schemas.settings import Settings

POLICY, QUALIFIED_MIN = "authored", 0.8


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for items, images, raters, answers and the store.")] = Path(
        "demo/written"
    ),
    items: Annotated[int, typer.Option("--items", min=1, help="Items to draw.")] = 60,
    seed: Annotated[int, typer.Option(help="Seed of the items.")] = 0,
) -> None:
    """Draw items with planted faults, invented raters and models, take them in, and count the faults caught."""
    from tasks.bench.written.checks import read_qualification, take_findings
    from tasks.demo.items import BENCH, files_of, write_demo_items
    from tasks.storage.tables import Store

    store = str(out / "store")
    write_demo_items(out, items, seed)
    files, told = files_of(out), list[str]()

    def rated(settings: Settings) -> list[StageReport]:
        known = read_qualification(files["known"])
        store, now = Store.open(settings.store), datetime.now(UTC)
        told.append(take_findings(store, BENCH, files["raters"], known, QUALIFIED_MIN, now))
        return []

    take_in(
        files["items"], settings_of(store=store, format="bench-items", policy=POLICY), BENCH, out / "images", then=rated
    )
    print(told[0])
    _print_caught(files["expected"], store, BENCH)


def _print_caught(expected: Path, store: str, bench: str) -> None:
    """Print how many of the planted faults were dropped."""
    from tasks.storage.queries.benches.written_items import items_for_judging
    from tasks.storage.tables import Store

    planted = {json.loads(line)["item_id"] for line in expected.read_text(encoding="utf-8").splitlines()}
    kept = {item.item_id for item in items_for_judging(Store.existing(store), bench)}
    print(f"planted faults: {len(planted - kept)} caught, {len(planted & kept)} missed; {len(kept):,} items kept")
