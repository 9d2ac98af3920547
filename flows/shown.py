"""Prefect log lines (one per stage) and artifacts of a finished run. They have counts only, no items or texts."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.context import FlowRunContext
from prefect.logging import get_run_logger

from schemas.run import StageReport
from schemas.settings import Settings


def show(settings: Settings, reports: Sequence[StageReport], record: Mapping[str, Any]) -> None:
    """Create the artifacts `stages`, `funnel`, `dropped` and `release`, and the log lines. No-op outside a flow run.

    A refusal by the server is only logged: the run record has the same figures.
    """
    if FlowRunContext.get() is None:
        return
    logger = get_run_logger()
    for report in reports:
        logger.info("stage %s", json.dumps(_line(report)))
    try:
        create_table_artifact(
            key="stages", table=[_row(report) for report in reports], description="What each stage did"
        )
        if gone := record["funnel"]:
            _show_funnel(gone)
            _show_release(settings, reports[-1])
    except Exception as error:  # any failure of the server or the connection
        logger.warning("artifacts were not stored (%s)", type(error).__name__)


def _line(report: StageReport) -> dict[str, Any]:
    """A report's figures that are not zero."""
    shown = report.model_dump(mode="json", exclude={"drops"})
    return {name: value for name, value in shown.items() if value}


def _row(report: StageReport) -> dict[str, Any]:
    return {
        "stage": report.stage,
        "seconds": report.seconds,
        "rows per second": report.rows_per_second,
        "peak MB": report.peak_memory_mb,
        "counts": ", ".join(f"{name} {count:,}" for name, count in report.counts.items()),
        "measured": sum(report.model_calls.values()),
        "failed": sum(report.failures.values()),
        "US dollars": round(sum(use.usd + use.usd_unconfirmed for use in report.use.values()), 4),
    }


def _show_funnel(gone: Mapping[str, Any]) -> None:
    fates = [{"fate": fate, "lines": gone[fate]} for fate in ("kept", "dropped", "rejected")]
    create_table_artifact(key="funnel", table=fates, description=f"Where {gone['lines']:,} lines went")
    rows = [
        {"fate": fate, "reason": reason, "lines": lines}
        for fate in ("dropped", "rejected")
        for reason, lines in gone[f"{fate}_by"].items()
    ]
    create_table_artifact(key="dropped", table=rows, description="Lines by the first reason that fired")


def _show_release(settings: Settings, released: StageReport) -> None:
    place = f"{settings.store}/{released.result}"
    new = "New" if released.counts.get("new") else "Unchanged"
    text = f"{new}: `{place}`\n\nFigures and tables: `{place}/report/index.html`"
    create_markdown_artifact(key="release", markdown=text, description="The release of this run")
