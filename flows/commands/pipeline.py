"""`curate run` and the single stages. Stage reports are printed on stderr, results on stdout."""

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

import flows.commands.options as opt
from flows.before_work import check_before_work
from flows.commands.engine import run_flows
from flows.commands.options import settings_of
from schemas.errors import BadInput
from schemas.publication import Compat
from schemas.rating import BothBad, Interval, StylePreset
from schemas.run import Funnel, StageReport, Use
from schemas.settings import Settings


def run(
    logs: opt.LogsOption,
    store: opt.StoreOption,
    format: opt.FormatOption = None,
    images: opt.ImagesOption = None,
    presets: opt.PresetsOption = None,
    known_hashes: opt.KnownHashesOption = None,
    since: opt.SinceOption = None,
    until: opt.UntilOption = None,
    policy: opt.PolicyOption = "public_release",
    accept_drift: opt.AcceptDriftOption = False,
    failed_share_max: opt.FailedShareOption = 0.02,
    release: opt.ReleaseOption = None,
    provider: opt.ProviderOption = None,
    budget: opt.BudgetOption = None,
    prices: opt.PricesOption = None,
    batch: opt.BatchOption = False,
    batch_hours: opt.BatchHoursOption = None,
    seed: opt.SeedOption = 0,
    workers: opt.WorkersOption = None,
    task_runner: opt.TaskRunnerOption = None,
    task_runner_address: opt.TaskRunnerAddressOption = None,
    topic_engine: opt.TopicEngineOption = None,
    bench_size: opt.BenchSizeOption = None,
    bench: opt.BenchOption = None,
    bootstraps: opt.BootstrapsOption = 100,
    anchor: opt.AnchorOption = None,
    with_answers: opt.WithAnswersOption = False,
    judge_version: opt.JudgeVersionOption = None,
    compat: opt.CompatOption = None,
) -> None:
    """Run the whole pipeline: raw logs to a release. With --compat it also writes STORE/exports/VERSION-visionarena."""
    settings = settings_of(**{name: value for name, value in locals().items() if name != "compat"})
    reports = curate_all(settings)
    export_released(settings, reports, compat)
    print_result(settings, reports)


def ingest(
    logs: opt.LogsOption,
    store: opt.StoreOption,
    format: opt.FormatOption = None,
    images: opt.ImagesOption = None,
    presets: opt.PresetsOption = None,
    known_hashes: opt.KnownHashesOption = None,
    since: opt.SinceOption = None,
    until: opt.UntilOption = None,
    provider: opt.ProviderOption = None,
    workers: opt.WorkersOption = None,
    task_runner: opt.TaskRunnerOption = None,
    task_runner_address: opt.TaskRunnerAddressOption = None,
) -> None:
    """Read logs or a published dataset into conversations, battles, images and rejects.

    Reads an arena server's own logs (YYYY-MM-DD-conv.json and vision-tmp-…, also .jsonl, .gz, .zst, of several
    servers) and, as Parquet, a `datasets` folder or JSON Lines: VisionArena-Chat and -Battle, WildVision,
    arena-human-preference, lmsys-chat-1m, OpenAI-style messages. Lines that were already read are skipped.
    """
    settings = settings_of(**locals())
    check_before_work(settings)
    print_stages(run_flows(settings, _flow("flows.ingest", "ingest")))


def measure(
    store: opt.StoreOption,
    policy: opt.PolicyOption = "public_release",
    provider: opt.ProviderOption = None,
    budget: opt.BudgetOption = None,
    prices: opt.PricesOption = None,
    batch: opt.BatchOption = False,
    batch_hours: opt.BatchHoursOption = None,
    workers: opt.WorkersOption = None,
    task_runner: opt.TaskRunnerOption = None,
    task_runner_address: opt.TaskRunnerAddressOption = None,
) -> None:
    """Measure missing signals: of all items and, after `decide`, of kept items."""
    run_stages(settings_of(**locals()), ("flows.measure", "measure"))


def decide(
    store: opt.StoreOption,
    policy: opt.PolicyOption = "public_release",
    provider: opt.ProviderOption = None,
    dry_run: opt.DecideDryRunOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Apply a policy to the stored signals. Nothing is measured again."""
    settings = settings_of(store=store, policy=policy, provider=provider)
    if as_json and not dry_run:
        raise BadInput("--json prints what --dry-run finds; add --dry-run")
    if dry_run:
        _print_changes(settings, as_json)
    else:
        run_stages(settings, ("flows.decide", "decide"))


def sample(
    store: opt.StoreOption,
    provider: opt.ProviderOption = None,
    seed: opt.SeedOption = 0,
    topic_engine: opt.TopicEngineOption = None,
    bench_size: opt.BenchSizeOption = None,
    bench: opt.BenchOption = None,
) -> None:
    """Find the topics of kept prompts and draw the benchmark."""
    run_stages(settings_of(**locals()), ("flows.sample", "sample"))


def release(
    store: opt.StoreOption,
    accept_drift: opt.AcceptDriftOption = False,
    failed_share_max: opt.FailedShareOption = 0.02,
    release: opt.ReleaseOption = None,
    provider: opt.ProviderOption = None,
    seed: opt.SeedOption = 0,
    topic_engine: opt.TopicEngineOption = None,
    bench_size: opt.BenchSizeOption = None,
    bench: opt.BenchOption = None,
    bootstraps: opt.BootstrapsOption = 100,
    anchor: opt.AnchorOption = None,
    interval: opt.IntervalOption = Interval.SANDWICH,
    cluster: opt.ClusterOption = None,
    both_bad: opt.BothBadOption = BothBad.TIE,
    style: opt.StyleOption = StylePreset.FASTCHAT,
    exclude_outliers: opt.OutliersOption = False,
    with_answers: opt.WithAnswersOption = False,
    judge_version: opt.JudgeVersionOption = None,
    compat: opt.CompatOption = None,
) -> None:
    """Write a release from the tables. With --compat it also writes STORE/exports/VERSION-visionarena."""
    settings = settings_of(**{name: value for name, value in locals().items() if name != "compat"})
    export_released(settings, run_stages(settings, ("flows.release", "release")), compat)


def _print_changes(settings: Settings, as_json: bool) -> None:
    """What the policy would change, by rule; one JSON object a line with `as_json`."""
    from tasks.policy.dry_run import dry_run
    from tasks.policy.policy_file import load_policy
    from tasks.providers import Providers
    from tasks.signals.steps import signal_versions
    from tasks.storage.tables import Store

    store, policy = Store.existing(settings.store), load_policy(settings.policy)
    changes, notes = dry_run(store, policy, signal_versions(Providers(settings.providers)))
    if as_json:
        print("\n".join(change.model_dump_json() for change in changes))
        return
    print(f"{'':<14}{'reason':<28}{'now':>8}{'then':>8}{'come in':>9}{'go out':>8}")
    for row in changes:
        print(f"{row.item_kind:<14}{row.reason:<28}{row.now:>8,}{row.then:>8,}{row.comes:>9,}{row.goes:>8,}")
    for note in notes:
        print(note)
    print(f"policy {policy.name}: nothing was written; without --dry-run it decides")


def curate_all(settings: Settings, stages: tuple[str, str] = ("flows.curate", "curate")) -> list[StageReport]:
    """Check the settings, then run every stage of a flow, by default of the whole pipeline."""
    check_before_work(settings)
    return run_flows(settings, _flow(*stages))


def run_stages(settings: Settings, stage: tuple[str, str]) -> list[StageReport]:
    """Run a stage on an existing store; print its reports and the path of the run record."""
    from tasks.storage.run_record import latest_run_record
    from tasks.storage.tables import Store

    store = Store.existing(settings.store)
    check_before_work(settings)
    reports = run_flows(settings, _flow(*stage))
    print_stages(reports)
    print(f"record   {settings.store}/{latest_run_record(store)}")
    for report in reports:
        if report.result:
            print(f"{settings.store}/{report.result}")
    return reports


def _flow(module: str, name: str) -> Callable[[], Any]:
    return lambda: getattr(importlib.import_module(module), name)


def export_released(settings: Settings, reports: Sequence[StageReport], compat: Compat | None) -> None:
    """Also write the new release with the columns of a published dataset.

    The store is locked, so that no takedown happens between reading and writing.
    """
    released = reports[-1].result
    if compat is None or not released:
        return
    from tasks.export.compat import export_beside
    from tasks.storage.lock import writing

    with writing(settings.store) as store:
        print(f"{settings.store}/{export_beside(store, released, compat)}")


def print_result(settings: Settings, reports: Sequence[StageReport]) -> None:
    """Print the stage reports, the paths of record, release and report, and the funnel."""
    from tasks.storage.queries.funnel import funnel
    from tasks.storage.run_record import latest_run_record
    from tasks.storage.tables import Store

    store = Store.open(settings.store)
    print_stages(reports)
    released = reports[-1]
    print(f"record   {settings.store}/{latest_run_record(store)}")
    print(f"release  {settings.store}/{released.result}" + ("" if released.counts["new"] else "  (unchanged)"))
    print(f"report   {settings.store}/{released.result}/report/index.html")
    _print_funnel(funnel(store))


def print_stages(reports: Sequence[StageReport]) -> None:
    """Print one line per stage: time, memory, counts, model calls, failures."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("stage", "seconds", "rows/s", "peak MB", "counts"):
        table.add_column(column, justify="left" if column in ("stage", "counts") else "right", overflow="fold")
    for report in reports:
        rate = "" if report.rows_per_second is None else f"{report.rows_per_second:,.0f}"
        figures = (f"{report.seconds:.1f}", rate, f"{report.peak_memory_mb:,.0f}")
        table.add_row(report.stage, *figures, ", ".join(_counts(report)))
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 140)
    console.print(table)
    for report in reports:
        for note in report.notes:
            console.print(f"{report.stage}: {note}", highlight=False, markup=False)
    total = sum(sum(report.model_calls.values()) for report in reports)
    console.print(f"total {sum(r.seconds for r in reports):.1f} s, model calls {total:,}", highlight=False)


def _counts(report: StageReport) -> list[str]:
    shown = [f"{name} {count:,}" for name, count in report.counts.items()]
    if report.model_calls or report.failures:
        shown.append(f"model calls {sum(report.model_calls.values()):,}")
    shown += [_in_money(service, use) for service, use in report.use.items()]
    return shown + [f"FAILED {name} {count:,}" for name, count in report.failures.items()]


def _in_money(service: str, use: Use) -> str:
    counted = f"{use.units:,} units" if use.units else f"{use.input_tokens:,} + {use.output_tokens:,} tokens"
    unconfirmed = f" (+ at most ${use.usd_unconfirmed:.4f} unconfirmed)" if use.usd_unconfirmed else ""
    return f"{service} {use.calls:,} requests, {counted}, ${use.usd:.4f}{unconfirmed}"


def _print_funnel(gone: Funnel) -> None:
    """Print the counts per reason, then the summary line that scripts parse."""
    for outcome, reasons in (("dropped", gone.dropped_by), ("rejected", gone.rejected_by)):
        for reason, count in reasons.items():
            print(f"  {outcome:<9}{count:>8,}  {reason}")
    if gone.held:
        print(f"  held     {gone.held:>8,}  of the dropped, waiting for a review: curate review")
    print(f"in {gone.lines} = kept {gone.kept} + dropped {gone.dropped} + rejected {gone.rejected}")
