"""`curate status`: where a store stands, on one screen, as JSON, and for Prometheus."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.options import JsonOption, option, settings_of
from flows.commands.tables import print_rows
from flows.running.settings_file import found, read
from schemas.row import Row
from schemas.upkeep import Due, MonthLimit

if TYPE_CHECKING:
    from tasks.storage.tables import Store

_RUNS = 7


def status(
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="STORE", help="Folder of a store, or its s3://… address.", show_default="of curate.yaml"
        ),
    ] = None,
    config: Annotated[str | None, option("config")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Print nothing: write the figures to this .prom file, for Prometheus' text collector. "
            "Nothing is written before a first run has made the store that the settings file names.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Label `store` of these figures; by default the last word of the store's address."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Last runs, what is new, held or waiting for people, what this month cost, and what retention would remove.

    Writes nothing but the file of --out, which is replaced in one step.
    """
    from tasks.storage.records import run_records
    from tasks.storage.tables import Store
    from tasks.upkeep import standing
    from tasks.upkeep.metrics import write_metrics
    from tasks.upkeep.retention import release_days, removable

    settings, now = settings_of(place, config), datetime.now(UTC)
    if out is not None and _is_of_file(settings.store, place, config) and Store(settings.store).awaits_first_run():
        return
    store = Store.existing(settings.store, any_layout=True)
    records = run_records(store)
    runs = [standing.past_run(record) for record in records[: -_RUNS - 1 : -1]]
    holds, costs = standing.holdings(store, records), standing.month_costs(records, now)
    waits = [*standing.due(store, records), *_questions(store)]
    limits = standing.month_limits(records, settings, now)
    for limit in limits:
        what = " of ".join(filter(None, ("the month's limit of cost", limit.provider)))
        waits.append(Due(what=what, count=int(limit.usd_left <= 0), next=f"raise {limit.setting}, or wait"))
    goes = removable(store, settings, now)
    removed = [{"what": what, "count": count, "which": ", ".join(goes.releases) if what == "releases" else ""}
               for what, count in goes.counts.items()]  # fmt: skip
    tables: dict[str, Sequence[Row | Mapping[str, Any]]] = {
        "store": [holds],
        "runs": runs,
        "releases": release_days(store, settings, now)[:_RUNS],
        "waiting": [row for row in waits if row.count],
        f"cost of {now:%Y-%m}": costs,
    }
    if limits:
        tables[f"limits of {now:%Y-%m}"] = [_against(limit) for limit in limits]
    if removed:
        tables["removed_next"] = removed
    for table, rows in tables.items() if out is None or as_json else ():
        print_rows(table.partition(" ")[0] if as_json else table, rows, as_json, titled=True)
    if out is not None:
        label = name or store.path.rstrip("/").rpartition("/")[2]
        write_metrics(store, label, out, records, holds, waits, settings, now)


def _is_of_file(store: str, place: str | None, config: str | None) -> bool:
    """Whether the settings file names this store, which may be given beside it."""
    file = found(config, place)
    named = read(file).get("store") if file else None
    return named is not None and Path(named).absolute() == Path(store).absolute()


def _against(limit: MonthLimit) -> dict[str, str | float]:
    """A row: what the month's runs have spent of a limit."""
    amounts = {"usd": limit.usd, "usd_max": limit.usd_max, "usd_left": limit.usd_left}
    return {"provider": limit.provider or "all"} | {name: round(usd, 4) for name, usd in amounts.items()}


def _questions(store: "Store") -> Iterator[Due]:
    """Questions to people that nobody has answered, by kind, also none."""
    from flows.commands.review.kinds import REVIEW_KINDS, queues_of
    from schemas.items.review import Draws
    from tasks.review.session import ReviewSession

    for kind in (name for name, about in REVIEW_KINDS.items() if about.left_by_runs):
        session = ReviewSession(store, queues_of([kind], Draws(store=store.root)))
        count = sum(progress.untouched for progress in session.progress(""))
        yield Due(what=f"questions to people: {kind}", count=count, next=f"curate review serve {kind}")
