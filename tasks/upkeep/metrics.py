"""Figures of a store for Prometheus: a file for the text collector of node_exporter, by prometheus_client.

In: the store, its run records, and what waits. Out: gauges with the labels `store` and, where a figure is of a
deployment, `deployment`. A series that was there stays, at 0 where there is nothing to say, so that an alert on it
never lacks its data: what may have a value is known from the code or from all records, and retention keeps the records
that `series_of` needs. `deploy/prometheus` has the alerts and the dashboard on these names. A further figure is an
entry of `GAUGES` and a sample of an `_of_…` function.
"""

import math
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from fsspec.implementations.local import LocalFileSystem

from schemas.errors import BadInput
from schemas.settings import Settings
from schemas.tables import SIGNALS
from schemas.upkeep import Due, Holdings
from tasks.providers import EMBEDDED
from tasks.storage.records import COMPLETED, FAILED, HELD, KILLED, RUNNING
from tasks.storage.tables import Store
from tasks.upkeep.standing import (
    NIGHTLY,
    Records,
    deployment_of,
    last_completed,
    month_costs,
    month_limits,
    service_uses,
)

GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "conversations": ("Conversations, kept or not.", ()),
    "battles": ("Votes.", ()),
    "images": ("Distinct images.", ()),
    "releases": ("Releases with data.", ()),
    "store_bytes": ("Bytes of the files of the store; of a store in a folder.", ()),
    "disk_free_bytes": ("Bytes that are free where the store is; of a store in a folder.", ()),
    "written_timestamp_seconds": ("When these figures were written.", ()),
    "last_completed_timestamp_seconds": ("End of the last completed run; 0 without one.", ("deployment",)),
    "last_run_timestamp_seconds": ("Start of the last run.", ("deployment",)),
    "last_run_seconds": ("Duration of the last run that ended.", ("deployment",)),
    "last_run_state": ("1 for the state of the last run, 0 for the others.", ("deployment", "state")),
    "stage_seconds": ("Duration of a stage in the last run that had it.", ("deployment", "stage")),
    "stage_items": ("Items that a stage worked on in the last run that had it.", ("deployment", "stage")),
    "failed_items": ("Items that the last run could not measure.", ("deployment", "signal", "provider")),
    "lines": ("Input lines by outcome, at the last release.", ("outcome", "reason")),
    "waiting": ("Things that wait for people or for the next run.", ("what",)),
    "month_requests": ("Requests of this month's runs.", ("deployment", "service")),
    "month_requests_unpriced": ("Those of them without a price, which count as no cost.", ("deployment", "service")),
    "month_usd": ("Cost of this month's runs in US dollars, with what is unconfirmed.", ("deployment", "service")),
    "month_all_usd": ("The same of all deployments and services.", ()),
    "month_usd_max": ("Limit of that cost (month_usd_max); infinite without one.", ()),
    "month_provider_usd": ("The same of a provider with a limit of its own.", ("provider",)),
    "month_provider_usd_max": ("Limit of that cost (month_usd_max_by).", ("provider",)),
}
"""Figure, without the `curate_` before its name -> its meaning and its labels beside `store`."""
STATES = (RUNNING, COMPLETED, HELD, FAILED, KILLED)


class _Sample(NamedTuple):
    """A value of a figure, with the values of its labels in order."""

    figure: str
    value: float
    labels: tuple[str, ...] = ()


def write_metrics(
    store: Store,
    name: str,
    file: Path,
    records: Records,
    holds: Holdings,
    waits: Sequence[Due],
    settings: Settings,
    now: datetime,
) -> None:
    """Write the figures to a `.prom` file, which is replaced in one step; `name` is the label of the store.

    Raises BadInput for a folder that cannot be written.
    """
    from prometheus_client import CollectorRegistry, Gauge, write_to_textfile  # every run imports this file

    registry = CollectorRegistry()
    gauges = {
        figure: Gauge(f"curate_{figure}", meaning, ("store", *labels), registry=registry)
        for figure, (meaning, labels) in GAUGES.items()
    }
    samples = [*_of_store(store, holds, now), *_of_runs(records), *_of_failures(records, settings.providers)]
    samples += [_Sample("waiting", row.count, (row.what,)) for row in waits]
    samples += [*_of_lines(records), *_of_month(records, now)]
    samples.append(_Sample("month_usd_max", math.inf if settings.month_usd_max is None else settings.month_usd_max))
    for limit in month_limits(records, settings, now):
        if limit.provider:
            samples.append(_Sample("month_provider_usd", limit.usd, (limit.provider,)))
            samples.append(_Sample("month_provider_usd_max", limit.usd_max, (limit.provider,)))
    for sample in samples:
        gauges[sample.figure].labels(name, *sample.labels).set(sample.value)
    try:
        write_to_textfile(str(file), registry)
    except OSError as error:
        raise BadInput(f"--out {str(file)!r} cannot be written ({error.strerror}); give another file") from None


def series_of(record: Mapping[str, Any]) -> set[tuple[str, tuple[str, ...], bool]]:
    """Series that the record of a run gives: figure, labels beside `store`, and whether its value is another than 0.

    The last records with each of these give the figures that all records give.
    """
    started = datetime.fromisoformat(record["started_at"])
    samples = [*_of_runs([record]), *_of_failures([record], {}), *_of_lines([record]), *_of_month([record], started)]
    return {(sample.figure, sample.labels, sample.value != 0) for sample in samples}


def _of_store(store: Store, holds: Holdings, now: datetime) -> Iterator[_Sample]:
    for figure in ("conversations", "battles", "images", "releases"):
        yield _Sample(figure, getattr(holds, figure))
    yield _Sample("written_timestamp_seconds", now.timestamp())
    if isinstance(store.fs, LocalFileSystem):
        yield _Sample("disk_free_bytes", shutil.disk_usage(store.path).free)
        yield _Sample("store_bytes", _bytes_below(store.path))


def _bytes_below(folder: str) -> int:
    """Size of all files below a folder; one under several names, such as a shard of two releases, counts once."""
    sizes = dict[tuple[int, int], int]()
    for place, _, files in os.walk(folder):
        for file in files:
            try:
                status = Path(place, file).lstat()
            except FileNotFoundError:  # a run replaced it meanwhile
                continue
            sizes[status.st_dev, status.st_ino] = status.st_size
    return sum(sizes.values())


def _of_runs(records: Records) -> Iterator[_Sample]:
    """Figures of the last runs of each deployment; `records` are oldest first."""
    completed = last_completed(records)
    for deployment in sorted({NIGHTLY, *map(deployment_of, records)}):
        ended = completed.get(deployment)
        yield _Sample("last_completed_timestamp_seconds", ended.timestamp() if ended else 0, (deployment,))
    last_records = {deployment_of(record): record for record in records}
    durations = dict[str, float]()
    stages = dict[tuple[str, str], Mapping[str, float]]()
    for record in records:
        deployment = deployment_of(record)
        if record["finished_at"]:
            begun, ended = (datetime.fromisoformat(record[key]) for key in ("started_at", "finished_at"))
            durations[deployment] = (ended - begun).total_seconds()
        for stage in record["stages"]:
            items = round((stage.get("rows_per_second") or 0) * stage.get("seconds", 0))
            stages[deployment, stage["stage"]] = {"stage_seconds": stage.get("seconds", 0), "stage_items": items}
    for deployment, record in sorted(last_records.items()):
        started = datetime.fromisoformat(record["started_at"]).timestamp()
        yield _Sample("last_run_timestamp_seconds", started, (deployment,))
        yield _Sample("last_run_seconds", durations.get(deployment, 0), (deployment,))
        for state in STATES:
            yield _Sample("last_run_state", record["state"] == state, (deployment, state))
    for (deployment, name), figures in sorted(stages.items()):
        for figure, value in figures.items():
            yield _Sample(figure, value, (deployment, name))


def _of_failures(records: Records, providers: Mapping[str, str]) -> Iterator[_Sample]:
    """Items that the last run of each deployment that measured could not measure.

    A run that has only begun, or was held before its first stage, says nothing of them. Each provider that any run of
    a deployment had keeps its series; `providers` are those of the settings now.
    """
    failed = {(NIGHTLY, signal, providers.get(signal, EMBEDDED)): 0 for signal in SIGNALS}
    for record in records:
        if not record["stages"] or not record["finished_at"]:
            continue
        deployment, of_run = deployment_of(record), record.get("settings", {}).get("providers", {})
        failed |= dict.fromkeys([labels for labels in failed if labels[0] == deployment], 0)
        failed |= {(deployment, signal, of_run.get(signal, EMBEDDED)): 0 for signal in SIGNALS}
        for stage in record["stages"]:
            for cause, count in stage["failures"].items():
                signal = cause.partition(":")[0]
                labels = (deployment, signal, of_run.get(signal, EMBEDDED))
                failed[labels] = failed.get(labels, 0) + count
    for labels, count in sorted(failed.items()):
        yield _Sample("failed_items", count, labels)


def _of_lines(records: Records) -> Iterator[_Sample]:
    """Lines by outcome at the last release; each reason that any release had keeps its series."""
    lines = {("kept", ""): 0}
    for record in records:
        if funnel := record.get("funnel"):
            lines = dict.fromkeys(lines, 0)
            lines["kept", ""] = funnel.get("kept", 0)
            for outcome in ("dropped", "rejected"):
                for reason, count in funnel.get(f"{outcome}_by", {}).items():
                    lines[outcome, reason] = count
    for labels, count in sorted(lines.items()):
        yield _Sample("lines", count, labels)


def _of_month(records: Records, now: datetime) -> Iterator[_Sample]:
    """Requests and cost by deployment and service, of all services that a run of the deployment ever asked."""
    records_of = defaultdict[str, list[Mapping[str, Any]]](list)
    for record in records:
        records_of[deployment_of(record)].append(record)
    for deployment, of_deployment in sorted(records_of.items()):
        use_by_service = dict.fromkeys(sorted(service_uses(of_deployment)), (0, 0, 0.0))
        for row in month_costs(of_deployment, now):
            use_by_service[row.service] = (row.requests, row.requests_unpriced, row.usd + row.usd_unconfirmed)
        for service, (requests, unpriced, usd) in use_by_service.items():
            yield _Sample("month_requests", requests, (deployment, service))
            yield _Sample("month_requests_unpriced", unpriced, (deployment, service))
            yield _Sample("month_usd", usd, (deployment, service))
    yield _Sample("month_all_usd", sum(row.usd + row.usd_unconfirmed for row in month_costs(records, now)))
