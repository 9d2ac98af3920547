"""`curate bench collect`, `write` and `findings`: benchmarks that people write."""

import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

import flows.commands.options as opt
from flows.before_work import check_before_work
from flows.commands.engine import run_flows
from flows.commands.pipeline import print_stages, run_stages
from flows.commands.tables import print_table
from schemas.errors import BadInput
from schemas.run import StageReport
from schemas.settings import Settings
from schemas.written import VALIDATION_SHARE

NameOption = Annotated[str, typer.Option("--bench", help="Name of the benchmark, such as recipes-1.")]


def collect(
    items: Annotated[Path, typer.Argument(help="CSV, JSONL or Parquet file of items, or a sheet of VisIT-Bench.")],
    store: opt.StoreOption,
    bench: NameOption,
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
    policy: opt.PolicyOption = "authored",
    provider: opt.ProviderOption = None,
    workers: opt.WorkersOption = None,
) -> None:
    """Take in items that people wrote: screened and decided on like conversations, with captions and references."""
    settings = opt.settings_of(store=store, format="bench-items", policy=policy, provider=provider, workers=workers)
    take_in(items, settings, bench, images or items.parent, families, validation_share)


def take_in(
    items: Path,
    settings: Settings,
    bench: str,
    images: Path,
    families: Path | None = None,
    validation_share: float = VALIDATION_SHARE,
    then: Callable[[Settings], list[StageReport]] = lambda _: [],
    last: Callable[[Settings], list[StageReport]] = lambda _: [],
) -> None:
    """Collect items and print what became of them. `then` runs before it is decided on them, `last` after.

    All of it is one run: a process has one Prefect server.
    """
    from tasks.bench.written import collect as work
    from tasks.bench.written.families import SHIPPED, load_families
    from tasks.bench.written.item_files import read_items

    work.checked_bench(bench)
    found, counts = read_items(items, load_families(families or SHIPPED)), dict[str, int]()

    def before(settings: Settings) -> list[StageReport]:
        work.store_members(_store(settings), found, bench, validation_share)
        return []

    def after(settings: Settings) -> list[StageReport]:
        counts.update(work.store_texts(_store(settings), found, bench, datetime.now(UTC)))
        return []

    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / f"{bench}.parquet"
        work.write_item_rows(found, bench, images, rows)
        settings = settings.model_copy(update={"logs": str(rows)})
        check_before_work(settings)
        stages = (
            lambda: before,
            _flow("take_in_items"),
            lambda: after,
            lambda: then,
            _flow("decide_items"),
            lambda: last,
        )
        reports = run_flows(settings, *stages)
    print_stages(reports)
    _print_kept(settings, bench, len(found), counts)


def _store(settings: Settings) -> Any:
    from tasks.storage.tables import Store

    return Store.open(settings.store)


def _flow(name: str) -> Callable[[], Any]:
    def load() -> Any:
        import flows.collect

        return getattr(flows.collect, name)

    return load


def _print_kept(settings: Settings, bench: str, rows: int, counts: dict[str, int]) -> None:
    """Print the reasons for dropped items, and how many are kept."""
    from tasks.bench.written.findings import kept_and_dropped

    kept, dropped = kept_and_dropped(_store(settings), bench)
    for reason, number in dropped.items():
        print(f"  dropped  {number:>8,}  {reason}")
    print(", ".join(f"{name} {number:,}" for name, number in counts.items() if name != "items"))
    print(f"in {rows} = kept {kept} + dropped {counts['items'] - kept} + rejected {rows - counts['items']}")


def findings(
    store: opt.StoreOption,
    bench: NameOption,
    file: Annotated[Path | None, typer.Argument(help="The sheet of --csv, filled in by one rater or more.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for a sheet that raters fill in, and the images on it.")
    ] = None,
    qualification: Annotated[
        Path | None,
        typer.Option(
            "--qualification",
            help="CSV of items with known answers (item, correct): raters who miss too many are left out.",
        ),
    ] = None,
    qualified_min: Annotated[
        float, typer.Option("--qualified-min", min=0, max=1, help="Share of these that a rater must have right.")
    ] = 0.8,
    as_json: opt.JsonOption = False,
) -> None:
    """What people found about the items: shares that are correct, by images and family, and how raters agree.

    With FILE, take what raters filled in; `curate decide --policy authored` then drops what is incorrect.
    """
    from tasks.bench.written import checks, figures
    from tasks.bench.written.findings import finding_tables
    from tasks.bench.written.written_items import check_known
    from tasks.providers.embedded.phrases import root_phrases
    from tasks.storage.lock import writing
    from tasks.storage.tables import Store, frame_of

    opened = Store.existing(store)
    check_known(opened, bench)
    if out is not None:
        print(f"{out}/sheet.csv: {checks.write_sheet(opened, bench, out):,} items")
        return
    if file is not None:
        known = checks.read_qualification(qualification) if qualification else {}
        with writing(store):
            taken = checks.take_findings(opened, bench, file, known, qualified_min, datetime.now(UTC))
        print(taken)
        return
    if qualification is not None:
        raise BadInput("--qualification is for a filled-in sheet; give FILE, too")
    facts = figures.facts_of_store(opened, bench)
    tables = {
        **finding_tables(opened, bench),
        "families": frame_of(figures.FamilyFigures, figures.family_figures(facts)),
        "asked_for": frame_of(figures.AskedFor, figures.asked_for(facts, root_phrases)),
        "pictured": frame_of(figures.Pictured, figures.pictured(facts)),
    }
    for name, rows in tables.items():
        print_table(name, rows.to_dicts(), as_json)
    print("`curate decide --policy authored` drops what is incorrect or harmful", file=sys.stderr)


def write(
    store: opt.StoreOption,
    bench: NameOption,
    writer: Annotated[
        str,
        typer.Option("--writer", help="Models file (YAML) with the writer as its only entry, or embedded: a stand-in."),
    ] = "embedded",
    hidden: Annotated[
        bool,
        typer.Option("--hidden", help="Write for hidden items, too; only a writer with `own: true`."),
    ] = False,
    budget: opt.BudgetOption = None,
    prices: opt.PricesOption = None,
    batch: opt.BatchOption = False,
    batch_hours: opt.BatchHoursOption = None,
    provider: opt.ProviderOption = None,
) -> None:
    """Write what kept items lack: captions for the instruction, then references from captions, never from images.

    A model writes for the validation split; with --hidden for the hidden one, too.
    """
    from flows.writer import writer_of
    from tasks.bench.written.written_items import check_known
    from tasks.storage.tables import Store

    check_known(Store.existing(store), bench)
    chosen = {"name": bench, "writer": writer, "hidden": hidden}
    settings = opt.settings_of(
        store=store, budget=budget, prices=prices, batch=batch, batch_hours=batch_hours, provider=provider,
        written=chosen,
    )  # fmt: skip
    writer_of(settings)
    run_stages(settings, ("flows.write_items", "write_items"))
