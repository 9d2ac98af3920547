"""What commands print at the end: stages on stderr, results on stdout."""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from schemas.run import Funnel, StageReport, Use


def print_stages(reports: Sequence[StageReport]) -> None:
    """One line a stage: time, memory, what was counted, what was measured, what failed."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("stage", "seconds", "rows/s", "peak MB", "counts"):
        table.add_column(column, justify="left" if column in ("stage", "counts") else "right", overflow="fold")
    for report in reports:
        shown = [f"{name} {count:,}" for name, count in report.counts.items()]
        calls = sum(report.model_calls.values())
        if report.model_calls or report.failures:
            shown.append(f"model calls {calls:,}")
        shown += [_in_money(service, use) for service, use in report.use.items()]
        shown += [f"FAILED {name} {count:,}" for name, count in report.failures.items()]
        rate = "" if report.rows_per_second is None else f"{report.rows_per_second:,.0f}"
        memory = f"{report.peak_memory_mb:,.0f}"
        table.add_row(report.stage, f"{report.seconds:.1f}", rate, memory, ", ".join(shown))
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 140)
    console.print(table)
    for report in reports:
        for note in report.notes:
            console.print(f"{report.stage}: {note}", highlight=False, markup=False)
    total = sum(sum(report.model_calls.values()) for report in reports)
    console.print(f"total {sum(r.seconds for r in reports):.1f} s, model calls {total:,}", highlight=False)


def _in_money(service: str, use: Use) -> str:
    counted = f"{use.units:,} units" if use.units else f"{use.input_tokens:,} + {use.output_tokens:,} tokens"
    unconfirmed = f" (+ at most ${use.usd_unconfirmed:.4f} unconfirmed)" if use.usd_unconfirmed else ""
    return f"{service} {use.calls:,} requests, {counted}, ${use.usd:.4f}{unconfirmed}"


def print_funnel(gone: Funnel) -> None:
    """Per reason, then the line scripts look for, last."""
    for fate, reasons in (("dropped", gone.dropped_by), ("rejected", gone.rejected_by)):
        for reason, count in reasons.items():
            print(f"  {fate:<9}{count:>8,}  {reason}")
    if gone.held:
        print(f"  held     {gone.held:>8,}  of the dropped, until somebody has looked: curate review")
    print(f"in {gone.lines} = kept {gone.kept} + dropped {gone.dropped} + rejected {gone.rejected}")
