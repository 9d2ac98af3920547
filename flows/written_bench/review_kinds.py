"""Questions to people about written items: whether the reference of an item is correct."""

import sys
from typing import TYPE_CHECKING

from flows.commands.options import existing
from flows.commands.tables import print_rows
from schemas.items.review import Draws
from tasks.product import ResultsAsked, ReviewKind

if TYPE_CHECKING:
    from tasks.review_queue import ReviewQueue


def _items(draws: Draws) -> "list[ReviewQueue]":
    from tasks.written_bench.item_queue import WrittenQueue
    from tasks.written_bench.written_items import check_known

    if draws.bench:
        check_known(existing(draws.store), draws.bench)
    return [WrittenQueue(draws.bench)]


def _finds_correct(verdict: str) -> bool:
    from tasks.written_bench.item_queue import finds_correct

    return finds_correct(verdict)


def _print_yields(request: ResultsAsked) -> None:
    """Shares of items that are correct, by images and family, how raters agree, and what the items are."""
    from tasks.providers.embedded.texts import root_phrases
    from tasks.storage.tables import frame_of
    from tasks.written_bench import figures
    from tasks.written_bench.findings import finding_tables
    from tasks.written_bench.written_items import check_known

    store, bench = existing(request.draws.store), request.draws.bench or ""
    check_known(store, bench)
    facts = figures.facts_of_store(store, bench)
    tables = {
        **finding_tables(store, bench),
        "families": frame_of(figures.FamilyFigures, figures.family_figures(facts)),
        "asked_for": frame_of(figures.AskedFor, figures.asked_for(facts, root_phrases)),
        "pictured": frame_of(figures.Pictured, figures.pictured(facts)),
    }
    for name, rows in tables.items():
        print_rows(name, rows.to_dicts(), request.as_json, titled=True)
    print("`curate decide --policy authored` drops what is incorrect or harmful", file=sys.stderr)


KINDS = {
    "items": ReviewKind(
        ("written",),
        _items,
        "`curate decide --policy authored` drops what is incorrect or harmful",
        of_every_store=True,
        left_by_runs=True,
        results=_print_yields,
        results_of_bench=True,
        finds_correct=_finds_correct,
    )
}
