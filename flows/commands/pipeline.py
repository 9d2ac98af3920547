"""`curate run` and the single stages."""

import importlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

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
    TopicEngineOption,
    UntilOption,
    WorkersOption,
    settings_of,
)
from flows.commands.summary import print_funnel, print_stages
from schemas.errors import BadInput
from schemas.run import StageReport
from schemas.settings import Settings


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (run, measure, decide, sample, release):
        app.command()(command)


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
    topic_engine: TopicEngineOption = None,
    bench_size: BenchSizeOption = None,
    bench: BenchOption = None,
    bootstraps: BootstrapsOption = 100,
    anchor: AnchorOption = None,
) -> None:
    """Raw logs to a finished release: the nightly job by hand."""
    settings = settings_of(**locals())
    print_result(settings, curate_all(settings))


def curate_all(settings: Settings) -> list[StageReport]:
    """Check the settings, then run every stage."""
    check_before_work(settings)
    return run_flow(_flow("flows.curate", "curate"), settings)


def print_result(settings: Settings, reports: Sequence[StageReport]) -> None:
    """What the stages did, where record, release and report lie, and the funnel, last."""
    from tasks.lookup.funnel import funnel
    from tasks.run_record import latest_run_record
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
    reports = run_stages(settings_of(**given), ("flows.release", "release"))
    if compat is not None:
        from tasks.export.compat import export_beside
        from tasks.tables import Store

        print(f"{store}/{export_beside(Store.existing(store), reports[-1].result, compat)}")


def run_stages(settings: Settings, *stages: tuple[str, str]) -> list[StageReport]:
    """Run single stages on a store that exists, with one budget, print what they did and keep the record."""
    from tasks.ledger import one_ledger
    from tasks.run_record import keep_run_record
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


def check_before_work(settings: Settings) -> None:
    """Everything that can be known to be wrong before a stage starts. Raises CurateError."""
    from tasks.decide.policy_file import load_policy
    from tasks.ingest.formats.detect import source_files
    from tasks.ingest.known_hashes import load_known_hashes
    from tasks.ingest.presets import preset_files
    from tasks.prices import check_prices, load_prices
    from tasks.providers import Providers
    from tasks.release.build import checked_version
    from tasks.sample.engines import engine
    from tasks.tables import Store

    if settings.logs is not None:
        source_files(Path(settings.logs), settings.format, settings.since, settings.until)
    if settings.presets is not None:
        preset_files(Path(settings.presets))
    if settings.images is not None and not Path(settings.images).is_dir():
        raise BadInput(f"picture folder {settings.images!r} does not exist or is not a folder")
    load_known_hashes(settings.known_hashes)
    load_policy(settings.policy)
    if settings.release is not None:
        checked_version(settings.release)
    providers = Providers(settings.providers)
    chosen = {capability: providers[capability] for capability in settings.providers}
    prices = load_prices(settings.prices)
    if settings.budget_usd is not None:
        check_prices(prices, chosen.values())
    if settings.batch and not any(
        hasattr(getattr(provider, "model", None), "together") for provider in chosen.values()
    ):
        raise BadInput("--batch: no chosen provider asks in batches; give --provider categories=openai or =gemini")
    if settings.topics.engine != "core":
        engine(settings.topics.engine)
    Store.open(settings.store)
