"""`curate judge failures`: a judge proposes whether answers to failed prompts are right.

In: a store with failures, references of people, and a models file. Out: marks O* and X* in the store, which a person's
mark replaces; they are printed as `curate bench failures` prints them.
"""

from flows.commands.options import JsonOption, PricedDryRunOption, existing, takes
from flows.commands.pipeline import run_stages
from flows.commands.tables import print_rows
from schemas.errors import BadInput
from schemas.settings import Settings
from tasks.providers.asked_models import EMBEDDED_JUDGE


@takes(
    "store", "evaluate.judge", "prompts", "budget_usd", "prices", others=False,
    shared=("store", "prompts", "budget_usd", "prices"),
)  # fmt: skip
def failures(settings: Settings, dry_run: PricedDryRunOption = False, as_json: JsonOption = False) -> None:
    """Ask a judge whether answers to failed prompts are right: those open, with the prompt's reference before it."""
    from tasks.judging.cases import cases_with_reference
    from tasks.storage.queries.failures import failure_tables

    if settings.evaluate.judge is None:
        raise BadInput("no judge is given; give --judge FILE, a models file (YAML)")
    if settings.evaluate.judge == EMBEDDED_JUDGE:
        raise BadInput(f"--judge {EMBEDDED_JUDGE!r} cannot tell whether an answer is right; give a models file (YAML)")
    cases_with_reference(existing(settings.store))
    if dry_run:
        _print_estimate(settings)
        return
    run_stages(settings, ("flows.judging.evaluate", "propose"), as_json)
    for name, rows in failure_tables(existing(settings.store)).items():
        print_rows(name, rows.to_dicts(), as_json, titled=True)


def _print_estimate(settings: Settings) -> None:
    """Print what the judge would cost, one row for each model of the file."""
    from flows.commands.estimate import print_estimates, tokens_in
    from tasks.judging.cases import estimate_proposals
    from tasks.providers.asked_models import to_ask
    from tasks.runtime.budget import load_prices

    opened, prices = existing(settings.store), load_prices(settings.prices)
    rows = [row for model in to_ask(settings) for row in estimate_proposals(opened, model, prices, tokens_in())]
    print_estimates(rows, settings)
