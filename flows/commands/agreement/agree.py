"""`curate judge agree` and `curate judge votes`: how far labels agree, and a judge's votes with those of people."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.agreement.printing import print_agreement, print_raters
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
from schemas.errors import BadInput

ROUNDS = 1000
"""Resamples of items for the intervals; they cost little."""
FilesArgument = Annotated[
    list[Path],
    typer.Argument(
        help="Labels (.csv, .jsonl, .parquet) with columns item, label and, with several people an item, rater; or "
        "battle tables, whose labels are the votes. The first file is what the others are held to.",
    ),
]


def agree(
    files: FilesArgument, as_json: JsonOption = False, bootstraps: BootstrapsOption = ROUNDS, seed: SeedOption = 0
) -> None:
    """Agreement of labels on the same items: confusion, accuracy, F1, kappa, alpha, Pearson, each with its interval.

    With one file, the agreement of its raters.
    """
    from tasks.judging.agreement.agree import label_agreement, rater_agreement
    from tasks.judging.agreement.label_files import read_labels

    if twice := next((file for file in files if files.count(file) > 1), None):
        raise BadInput(f"{str(twice)!r} is given twice; give files of different people or judges")
    stems = [file.stem for file in files]
    read = [read_labels(file, file.stem if stems.count(file.stem) == 1 else str(file)) for file in files]
    if len(read) == 1:
        print_raters([rater_agreement(read[0], bootstraps, seed)], as_json)
    else:
        print_agreement([label_agreement(read[0], each, bootstraps, seed) for each in read[1:]], as_json)


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
    from tasks.judging.agreement.experts import judges_against_people
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
