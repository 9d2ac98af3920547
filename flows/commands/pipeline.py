"""`curate run` and the single stages. Stage reports are printed on stderr, results on stdout."""

import importlib
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from flows.commands.engine import run_flows
from flows.commands.options import CompatOption, JsonOption, existing, measured_versions, takes
from flows.commands.tables import print_rows
from schemas.errors import BadInput, install_command
from schemas.publication import Compat
from schemas.run import StageReport, Use, in_words
from schemas.settings import Settings
from tasks.runtime.progress import json_asked, tell

_LOGS = ("logs", "source", "store", "format", "images", "presets", "known_hashes", "since", "until", "accept_shrunk")
PAID = ("budget_usd", "prices", "batch")
_RELEASED = ("accept_drift", "release", "bootstraps", "anchor_model", "with_answers", "judge_version")


@takes(
    *_LOGS,
    "policy",
    "models",
    "providers",
    "prompts",
    *PAID,
    "seed",
    "redraw",
    "workers",
    *_RELEASED,
    required=["logs"],
)
def run(settings: Settings, compat: CompatOption = None) -> None:
    """Run the whole pipeline: raw logs to a release. With --compat it also writes STORE/exports/VERSION-visionarena."""
    reports = curate_all(settings)
    export_released(settings, reports, compat)
    print_result(settings, reports)


@takes(*_LOGS, "models", "providers", "workers", required=["logs"])
def ingest(settings: Settings) -> None:
    """Read logs or a published dataset into conversations, battles, images and rejects.

    Reads an arena server's own logs, and other people's chats and votes as Parquet, Arrow, CSV or JSON; `--format list`
    prints all formats. Lines that were already read are skipped.
    """
    print_stages(run_flows(settings, flow_of("flows.stages", "ingest")))
    _print_unread(settings)


@takes("store", "since", "until", "policy", "models", "providers", "prompts", *PAID, "workers")
def measure(settings: Settings) -> None:
    """Measure missing signals: of all items and, after `decide`, of kept items; or those of some days."""
    run_stages(settings, ("flows.stages", "measure"))


DecideDryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Only print what the policy would keep and drop, by reason; write nothing.")
]


@takes("store", "policy", "providers", "prompts")
def decide(settings: Settings, dry_run: DecideDryRunOption = False, as_json: JsonOption = False) -> None:
    """Apply a policy to the stored signals. Nothing is measured again."""
    if as_json and not dry_run:
        raise BadInput("--json prints what --dry-run finds; add --dry-run")
    if dry_run:
        _print_changes(settings, as_json)
    else:
        run_stages(settings, ("flows.stages", "decide"))


@takes("store", "providers", "prompts", "seed", "redraw")
def sample(settings: Settings) -> None:
    """Find the topics of kept prompts and draw the benchmark."""
    run_stages(settings, ("flows.release", "sample"))


@takes("store", "providers", "prompts", "seed", *_RELEASED)
def release(settings: Settings, compat: CompatOption = None) -> None:
    """Write a release from the tables. With --compat it also writes STORE/exports/VERSION-visionarena."""
    export_released(settings, run_stages(settings, ("flows.release", "release")), compat)


def _print_changes(settings: Settings, as_json: bool) -> None:
    """Print the changes that the policy would make, by rule; one JSON object a line with `as_json`."""
    from flows.products import item_findings
    from tasks.policy.differences import dry_run
    from tasks.policy.policy_file import load_policy

    store, policy = existing(settings.store), load_policy(settings.policy)
    changes, notes = dry_run(store, policy, measured_versions(settings), item_findings)
    if as_json:
        print_rows("changes", changes, as_json)
        return
    headings = ("", "reason", "now", "then", "come in", "go out")
    rows = [(row.item_kind, row.reason, row.now, row.then, row.comes, row.goes) for row in changes]
    print_rows("changes", [dict(zip(headings, row, strict=True)) for row in rows])
    for note in notes:
        print(note)
    print(f"policy {policy.name}: nothing was written; without --dry-run it decides")


def curate_all(settings: Settings, stages: tuple[str, str] = ("flows.curate", "curate")) -> list[StageReport]:
    """Run every stage of a flow, by default of the whole pipeline."""
    return run_flows(settings, flow_of(*stages))


def run_stages(settings: Settings, stage: tuple[str, str], as_json: bool = False) -> list[StageReport]:
    """Run a stage on an existing store; print its reports and the path of the run record.

    With `as_json` all of it is printed on stderr, because stdout has JSON alone.
    """
    from tasks.storage.records import latest_run_record

    store = existing(settings.store)
    reports = run_flows(settings, flow_of(*stage))
    print_stages(reports)
    results = [f"{settings.store}/{report.result}" for report in reports if report.result]
    for line in (f"record   {settings.store}/{latest_run_record(store)}", *results):
        print(line, file=sys.stderr if as_json else sys.stdout)
    return reports


def flow_of(module: str, name: str) -> Callable[[], Any]:
    """A function that imports a flow: importing Prefect takes seconds."""
    return lambda: getattr(importlib.import_module(module), name)


def export_released(settings: Settings, reports: Sequence[StageReport], compat: Compat | None) -> None:
    """Write the new release also with the columns of a published dataset.

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
    from tasks.storage.records import funnel, latest_run_record
    from tasks.storage.tables import Store

    store = Store.open(settings.store)
    print_stages(reports)
    released = reports[-1]
    print(f"record   {settings.store}/{latest_run_record(store)}")
    print(f"release  {settings.store}/{released.result}" + ("" if released.counts["new"] else "  (unchanged)"))
    print(f"report   {settings.store}/{released.result}/report/index.html")
    print(f"look     curate view {shlex.quote(settings.store)}")
    # the counts per reason, what is new since the last release, then the summary line that scripts parse
    gone = funnel(store)
    for outcome, reasons in (("dropped", gone.dropped_by), ("rejected", gone.rejected_by)):
        for reason, count in reasons.items():
            print(f"  {outcome:<9}{count:>8,}  {reason}")
    if gone.held:
        waiting = f"{gone.held_conversations:,} conversations wait for a review: curate review serve held"
        print(f"  held     {gone.held:>8,}  of the dropped lines; their {waiting}")
    _print_unread(settings)
    for line in released.changed:
        print(line)
    print(f"in {gone.lines} = kept {gone.kept} + dropped {gone.dropped} + rejected {gone.rejected}")


def _print_unread(settings: Settings) -> None:
    """Print how many parts of messages were not read, by kind; nothing where all were."""
    from tasks.images.pdf_pages import PDF, draws_pages
    from tasks.storage.records import unread_parts

    for kind, count in unread_parts(existing(settings.store)).items():
        hint = f"; pages are drawn with: {install_command('pdf')}" if kind == PDF and not draws_pages() else ""
        print(f"  not read {count:>8,}  {kind}, a part of messages; `rejects` has each place{hint}")


def print_stages(reports: Sequence[StageReport]) -> None:
    """Print one line per stage: time, memory, counts, model calls, failures."""
    rows = [
        {
            "stage": report.stage,
            "seconds": report.seconds,
            "rows/s": None if report.rows_per_second is None else round(report.rows_per_second),
            "peak MB": round(report.peak_memory_mb),
            "counts": ", ".join(_counts(report)),
        }
        for report in reports
    ]
    if json_asked():
        for report in reports:
            tell(f"stage {report.stage}", stage=report.model_dump(mode="json", exclude={"drops"}))
    else:
        print_rows("stages", rows, err=True)
    for report in reports:
        for note in report.notes:
            tell(f"{report.stage}: {note}")
    calls = sum(sum(report.model_calls.values()) for report in reports)
    requests = sum(use.calls for report in reports for use in report.use.values())
    seconds = sum(report.seconds for report in reports)
    tell(f"total {seconds:.1f} s, items measured {calls:,}, requests to services {requests:,}")


def _counts(report: StageReport) -> list[str]:
    parts = [f"{name} {count:,}" for name, count in report.counts.items()]
    if report.model_calls or report.failures:
        parts.append(f"measured {sum(report.model_calls.values()):,}")
    parts += [_in_money(service, use) for service, use in report.use.items()]
    for name, count in report.failures.items():
        what, _, reason = name.rpartition(": ")
        parts.append(f"FAILED {what}: {in_words(reason)} {count:,}")
    return parts


def _in_money(service: str, use: Use) -> str:
    counted = f"{use.units:,} units" if use.units else f"{use.input_tokens:,} + {use.output_tokens:,} tokens"
    unconfirmed = f" (+ at most ${use.usd_unconfirmed:.4f} unconfirmed)" if use.usd_unconfirmed else ""
    unpriced = f", {use.calls_unpriced:,} without a price: give --prices FILE" if use.calls_unpriced else ""
    return f"{service} {use.calls:,} requests, {counted}, ${use.usd:.4f}{unconfirmed}{unpriced}"
