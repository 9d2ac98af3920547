"""`curate judge votes`: a judge votes on battles, and is held against the people's votes."""

import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from flows.commands.agreement.agree import ROUNDS
from flows.commands.agreement.printing import print_agreement
from flows.commands.judge.calls import JudgeOption
from flows.commands.options import (
    BatchHoursOption,
    BatchOption,
    BootstrapsOption,
    BudgetOption,
    JsonOption,
    PricesOption,
    ProviderOption,
    SeedOption,
    StoreOption,
    settings_of,
)
from flows.commands.pipeline import run_stages

SampleOption = Annotated[
    int | None,
    typer.Option(
        "--sample",
        min=1,
        help="Number of kept anonymous battles to ask about; a larger number adds to a smaller one.",
        show_default="ask nothing, print the agreement of stored votes",
    ),
]


def votes(
    store: StoreOption,
    sample: SampleOption = None,
    judge: JudgeOption = "embedded",
    budget: BudgetOption = None,
    prices: PricesOption = None,
    batch: BatchOption = False,
    batch_hours: BatchHoursOption = None,
    provider: ProviderOption = None,
    as_json: JsonOption = False,
    bootstraps: BootstrapsOption = ROUNDS,
    seed: SeedOption = 0,
) -> None:
    """Ask a judge for left, right, tie, both bad or NA on battles; print how every judge agrees with people."""
    from tasks.agreement.experts import judges_against_people
    from tasks.storage.tables import Store

    if sample is not None:
        evaluate = {"judge": judge, "sample": sample}
        settings = settings_of(
            store=store, budget=budget, prices=prices, batch=batch, batch_hours=batch_hours, provider=provider,
            evaluate=evaluate,
        )  # fmt: skip
        with redirect_stdout(sys.stderr if as_json else sys.stdout):
            run_stages(settings, ("flows.evaluate", "vote"))
    print_agreement(judges_against_people(Store.existing(store), bootstraps, seed), as_json)
