"""Questions to people about items made on demand: whether they fit, and what wrong answers are errors of."""

from typing import TYPE_CHECKING

from flows.commands.options import existing
from flows.commands.tables import print_rows
from schemas.items.review import Draws
from tasks.product import ResultsAsked, ReviewKind

if TYPE_CHECKING:
    from tasks.review_queue import ReviewQueue


def _fit(draws: Draws) -> "list[ReviewQueue]":
    from tasks.generated_bench.queues import GeneratedQueue

    return [GeneratedQueue(draws.bench, draws.guided)]


def _print_fit_rates(request: ResultsAsked) -> None:
    """How often a majority says that description and question fit."""
    from tasks.generated_bench.bench_state import read_bench
    from tasks.generated_bench.queues import review_rows

    store = existing(request.draws.store)
    rows = review_rows(store, read_bench(store, request.draws.bench or "").items)
    print_rows("reviews", [row.model_dump(mode="json") for row in rows], request.as_json, titled=True)


def _wrong_answers(draws: Draws) -> "list[ReviewQueue]":
    from tasks.generated_bench.queues import WrongAnswersQueue

    return [WrongAnswersQueue(draws.bench, draws.sample, draws.seed)]


KINDS = {
    "generated": ReviewKind(
        ("generated",),
        _fit,
        "what most raters find unfit is left out from now on",
        of_every_store=True,
        left_by_runs=True,
        results=_print_fit_rates,
        results_of_bench=True,
    ),
    "wrong_answers": ReviewKind(
        ("wrong_answers",), _wrong_answers, "`curate bench accuracy --bench NAME --table errors` counts them"
    ),
}
