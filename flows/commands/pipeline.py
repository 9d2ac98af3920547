"""`curate run` and the single stages."""

import importlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from flows.before_work import check_before_work
from flows.commands.engine import run_flow
from flows.commands.options import (
    AcceptDriftOption,
    AnchorOption,
    BatchHoursOption,
    BatchOption,
    BenchOption,
    BenchSizeOption,
    BootstrapsOption,
    BudgetOption,
    CompatOption,
    FormatOption,
    ImagesOption,
    KnownHashesOption,
    LogsOption,
    PolicyOption,
    PresetsOption,
    PricesOption,
    ProviderOption,
    ReleaseOption,
    SeedOption,
    SinceOption,
    StoreOption,
    TaskRunnerAddressOption,
    TaskRunnerOption,
    TopicEngineOption,
    UntilOption,
    WorkersOption,
    settings_of,
)
from flows.commands.summary import print_funnel, print_stages
from schemas.export import Compat
from schemas.run import StageReport
from schemas.settings import Settings


def run(
    logs: LogsOption,
    store: StoreOption,
    format: FormatOption = None,
    images: ImagesOption = None,
    presets: PresetsOption = None,
    known_hashes: KnownHashesOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    policy: PolicyOption = "public_release",
    accept_drift: AcceptDriftOption = False,
    release: ReleaseOption = None,
    provider: ProviderOption = None,
    budget: BudgetOption = None,
    prices: PricesOption = None,
    batch: BatchOption = False,
    batch_hours: BatchHoursOption = None,
    seed: SeedOption = 0,
    workers: WorkersOption = None,
    task_runner: TaskRunnerOption = None,
    task_runner_address: TaskRunnerAddressOption = None,
    topic_engine: TopicEngineOption = None,
    bench_size: BenchSizeOption = None,
    bench: BenchOption = None,
    bootstraps: BootstrapsOption = 100,
    anchor: AnchorOption = None,
    compat: CompatOption = None,
) -> None:
    """Raw logs to a finished release, the nightly job by hand; with --compat also STORE/exports/VERSION-visionarena."""
    settings = settings_of(**{name: value for name, value in locals().items() if name != "compat"})
    reports = curate_all(settings)
    export_released(settings, reports, compat)
    print_result(settings, reports)


def curate_all(settings: Settings) -> list[StageReport]:
    """Check the settings, then run every stage."""
    check_before_work(settings)
    return run_flow(_flow("flows.curate", "curate"), settings)


def print_result(settings: Settings, reports: Sequence[StageReport]) -> None:
    """What the stages did, where record, release and report lie, and the funnel, last."""
    from tasks.lookup.funnel import funnel
    from tasks.store.run_record import latest_run_record
    from tasks.tables import Store

    store = Store.open(settings.store)
    print_stages(reports)
    released = reports[-1]
    print(f"record   {settings.store}/{latest_run_record(store)}")
    print(f"release  {settings.store}/{released.result}" + ("" if released.counts["new"] else "  (unchanged)"))
    print(f"report   {settings.store}/{released.result}/report/index.html")
    print_funnel(funnel(store))


def measure(
    store: StoreOption,
    policy: PolicyOption = "public_release",
    provider: ProviderOption = None,
    budget: BudgetOption = None,
    prices: PricesOption = None,
    batch: BatchOption = False,
    batch_hours: BatchHoursOption = None,
    workers: WorkersOption = None,
    task_runner: TaskRunnerOption = None,
    task_runner_address: TaskRunnerAddressOption = None,
) -> None:
    """Missing facts: of everything, and, once `decide` has run, of what is kept."""
    run_stages(settings_of(**locals()), ("flows.measure", "screen"), ("flows.measure", "describe"))


def decide(store: StoreOption, policy: PolicyOption = "public_release", provider: ProviderOption = None) -> None:
    """Facts and a policy to decisions. Nothing is measured again."""
    run_stages(settings_of(**locals()), ("flows.decide", "decide"))


def sample(
    store: StoreOption,
    provider: ProviderOption = None,
    seed: SeedOption = 0,
    topic_engine: TopicEngineOption = None,
    bench_size: BenchSizeOption = None,
    bench: BenchOption = None,
) -> None:
    """Topics of what is kept, and the benchmark."""
    run_stages(settings_of(**locals()), ("flows.sample", "sample"))


def release(
    store: StoreOption,
    accept_drift: AcceptDriftOption = False,
    release: ReleaseOption = None,
    provider: ProviderOption = None,
    seed: SeedOption = 0,
    topic_engine: TopicEngineOption = None,
    bench_size: BenchSizeOption = None,
    bench: BenchOption = None,
    bootstraps: BootstrapsOption = 100,
    compat: CompatOption = None,
) -> None:
    """Tables to a release on disk; with --compat also STORE/exports/VERSION-visionarena."""
    given = {name: value for name, value in locals().items() if name != "compat"}
    settings = settings_of(**given)
    export_released(settings, run_stages(settings, ("flows.release", "release")), compat)


def export_released(settings: Settings, reports: Sequence[StageReport], compat: Compat | None) -> None:
    """The release that was made, once more with the columns of a published dataset.

    The store is held for it: what is taken down meanwhile would be in the export for ever.
    """
    released = reports[-1].result
    if compat is None or not released:
        return
    from tasks.export.compat import export_beside
    from tasks.store.lock import writing

    with writing(settings.store) as store:
        print(f"{settings.store}/{export_beside(store, released, compat)}")


def run_stages(settings: Settings, *stages: tuple[str, str]) -> list[StageReport]:
    """Run single stages on a store that exists, with one budget, print what they did and keep the record."""
    from tasks.spending.ledger import one_ledger
    from tasks.store.run_record import keep_run_record
    from tasks.tables import Store

    store = Store.existing(settings.store)
    check_before_work(settings)
    reports: list[StageReport] = []
    with one_ledger(settings.budget_usd, settings.prices):
        for module, name in stages:
            reports += run_flow(_flow(module, name), settings)
    record = keep_run_record(store, settings, reports, datetime.now(UTC))
    print_stages(reports)
    print(f"record   {settings.store}/{record}")
    for report in reports:
        if report.result:
            print(f"{settings.store}/{report.result}")
    return reports


def _flow(module: str, name: str) -> Callable[[], Any]:
    return lambda: getattr(importlib.import_module(module), name)
