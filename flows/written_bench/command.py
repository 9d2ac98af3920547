"""`curate bench collect` and `write`: benchmarks that people write."""

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

import flows.commands.options as opt
from flows.commands.engine import run_flows
from flows.commands.listed import Added
from flows.commands.options import existing
from flows.commands.pipeline import flow_of, print_stages, run_stages
from schemas.benches.written import VALIDATION_SHARE
from schemas.run import StageReport
from schemas.settings import Settings

_FLOWS = "flows.written_bench.item_flows"
WrittenNameOption = Annotated[str, typer.Option("--bench", help="Name of the benchmark, such as recipes-1.")]


@opt.takes("store", "policy", "providers", "workers", policy="authored", format="bench-items")
def collect(
    settings: Settings,
    items: Annotated[Path, typer.Argument(help="CSV, JSONL or Parquet file of items, or a sheet of VisIT-Bench.")],
    bench: WrittenNameOption,
    images: Annotated[
        Path | None,
        typer.Option("--images", help="Folder that the items' image names are in.", show_default="the folder of ITEMS"),
    ] = None,
    families: Annotated[
        Path | None,
        typer.Option("--families", help="YAML file of instruction families.", show_default="VisIT-Bench's 70"),
    ] = None,
    validation_share: Annotated[
        float,
        typer.Option(
            "--validation-share", min=0, max=1, help="Share of items whose captions and references may be released."
        ),
    ] = VALIDATION_SHARE,
) -> None:
    """Take in items that people wrote: screened and decided on like conversations, with captions and references."""
    take_in(items, settings, bench, images or items.parent, families, validation_share)


def take_in(
    items: Path, settings: Settings, bench: str, images: Path, families: Path | None = None,
    validation_share: float = VALIDATION_SHARE, then: Callable[[Settings], list[StageReport]] = lambda _: [],
    last: Callable[[Settings], list[StageReport]] = lambda _: [],
) -> None:  # fmt: skip
    """Collect items and print what became of them. `then` runs before it is decided on them, `last` after.

    All of it is one run: a process has one Prefect server.
    """
    from tasks.storage.tables import Store
    from tasks.written_bench import collect as work
    from tasks.written_bench.item_files import SHIPPED_FAMILIES, load_families, read_items

    work.checked_bench(bench)
    written_items, counts = read_items(items, load_families(families or SHIPPED_FAMILIES)), dict[str, int]()

    def before(settings: Settings) -> list[StageReport]:
        work.store_members(Store.open(settings.store), written_items, bench, validation_share)
        return []

    def after(settings: Settings) -> list[StageReport]:
        counts.update(work.store_texts(Store.open(settings.store), written_items, bench, datetime.now(UTC)))
        return []

    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / f"{bench}.parquet"
        work.write_item_rows(written_items, bench, images, rows)
        settings = settings.model_copy(update={"logs": str(rows)})
        taken_in, decided = flow_of(_FLOWS, "take_in_written"), flow_of(_FLOWS, "decide_written")
        reports = run_flows(settings, lambda: before, taken_in, lambda: after, lambda: then, decided, lambda: last)
    print_stages(reports)
    _print_kept(settings, bench, len(written_items), counts)


def _print_kept(settings: Settings, bench: str, rows: int, counts: dict[str, int]) -> None:
    """Print the reasons for dropped items, and how many are kept."""
    from tasks.written_bench.findings import kept_and_dropped
    from tasks.written_bench.written_items import items_for_judging

    store = existing(settings.store)
    kept, dropped = kept_and_dropped(store, bench)
    for reason, number in dropped.items():
        print(f"  dropped  {number:>8,}  {reason}")
    print(", ".join(f"{name} {number:,}" for name, number in counts.items() if name != "items"))
    if others := len(items_for_judging(store, bench, not_given=True)) - kept:
        print(f"  not given {others:>8,}  no picture, nothing else against them: judged by captions, never released")
    print(f"in {rows} = kept {kept} + dropped {counts['items'] - kept} + rejected {rows - counts['items']}")


@opt.takes(
    "store", "written.name", "written.writer", "written.hidden", "budget_usd", "prices", "batch", "providers",
    "prompts", required=["written.name"],
)  # fmt: skip
def write(settings: Settings) -> None:
    """Write what kept items lack: captions for the instruction, then references from captions, never from images.

    A model writes for the validation split; with --hidden for the hidden one, too.
    """
    from flows.before_work import writer_of
    from tasks.written_bench.written_items import check_known

    check_known(existing(settings.store), settings.written.name)
    writer_of(settings)
    run_stages(settings, (_FLOWS, "write_items"))


COMMANDS = tuple(Added(command, "bench") for command in (collect, write))
