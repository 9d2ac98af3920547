"""`curate status`: where a store stands, on one screen, as JSON, and for Prometheus."""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.options import JsonOption, option, settings_of
from flows.commands.tables import print_rows
from schemas.row import Row
from schemas.upkeep import Due

if TYPE_CHECKING:
    from tasks.storage.tables import Store

_RUNS = 7
_ASKED = ("held", "failures", "items", "generated")
"""Kinds of questions to people that a run may have; the others are samples, of which there are always some."""


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
            "--out", help="Print nothing: write the figures to this .prom file, for Prometheus' text collector."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Last runs, what is new, held or waiting for people, what this month cost, and what retention would remove.

    Writes nothing but the file of --out, which is replaced in one step.
    """
    from tasks.storage.records import run_records
    from tasks.storage.tables import Store
    from tasks.upkeep import standing
    from tasks.upkeep.retention import removable

    settings, now = settings_of(place, config), datetime.now(UTC)
    store = Store.existing(settings.store, any_layout=True)
    records = run_records(store)
    runs = [standing.past_run(record) for record in records[: -_RUNS - 1 : -1]]
    holds, costs = standing.holdings(store, records), standing.month_costs(records, now)
    waits = [*standing.due(store, records), *_questions(store)]
    goes = removable(store, settings, now)
    removed = [{"what": name, "count": count, "which": ", ".join(goes.releases) if name == "releases" else ""}
               for name, count in goes.counts.items()]  # fmt: skip
    tables: dict[str, Sequence[Row | Mapping[str, Any]]] = {
        "store": [holds],
        "runs": runs,
        "waiting": waits,
        f"cost of {now:%Y-%m}": costs,
    }
    if removed:
        tables["removed_next"] = removed
    for name, rows in tables.items() if out is None or as_json else ():
        print_rows(name.partition(" ")[0] if as_json else name, rows, as_json, titled=True)
    if out is not None:
        half = out.with_name(f".{out.name}.{os.getpid()}")
        completed = standing.last_completed(records)
        half.write_text(standing.prometheus_text(holds, runs, completed, waits, costs), encoding="utf-8")
        half.replace(out)


def _questions(store: "Store") -> Iterator[Due]:
    """Questions to people that nobody has answered."""
    from flows.commands.review.kinds import queues_of
    from schemas.items.review import Draws
    from tasks.review.session import ReviewSession

    for kind in _ASKED:
        session = ReviewSession(store, queues_of([kind], Draws(store=store.root)))
        if count := sum(each.untouched for each in session.progress("")):
            yield Due(what=f"questions to people: {kind}", count=count, next=f"curate review serve {kind}")
