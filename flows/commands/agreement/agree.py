"""`curate judge agree` and `curate judge votes`: how far labels agree, and a judge's votes with those of people."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.agreement.printing import print_agreement, print_raters
from flows.commands.judge.calls import EMBEDDED, PAID
from flows.commands.options import JsonOption, existing, takes
from flows.commands.pipeline import run_stages
from schemas.errors import BadInput
from schemas.settings import Settings

ROUNDS = 1000
"""Resamples of items for the intervals; they cost little."""
FilesArgument = Annotated[
    list[Path],
    typer.Argument(
        help="Labels (.csv, .jsonl, .parquet) with columns item, label and, with several people an item, rater; or "
        "battle tables, whose labels are the votes. The first file is what the others are held to."
    ),
]


@takes("bootstraps", "seed", store="", bootstraps=ROUNDS)
def agree(settings: Settings, files: FilesArgument, as_json: JsonOption = False) -> None:
    """Agreement of labels on the same items: confusion, accuracy, F1, kappa, alpha, Pearson, each with its interval.

    With one file, the agreement of its raters.
    """
    from tasks.judging.agreement.agree import label_agreement, rater_agreement
    from tasks.judging.agreement.label_files import read_labels

    if twice := next((file for file in files if files.count(file) > 1), None):
        raise BadInput(f"{str(twice)!r} is given twice; give files of different people or judges")
    stems = [file.stem for file in files]
    read = [read_labels(file, file.stem if stems.count(file.stem) == 1 else str(file)) for file in files]
    rounds, seed = settings.bootstraps, settings.seed
    if len(read) == 1:
        print_raters([rater_agreement(read[0], rounds, seed)], as_json)
    else:
        print_agreement([label_agreement(read[0], each, rounds, seed) for each in read[1:]], as_json)


@takes(
    "store", "evaluate.sample", "evaluate.judge", "prompts", *PAID, "providers", "bootstraps", "seed",
    bootstraps=ROUNDS, **EMBEDDED,
)  # fmt: skip
def votes(settings: Settings, as_json: JsonOption = False) -> None:
    """Ask a judge for left, right, tie, both bad or NA on battles; print how every judge agrees with people.

    Without --sample nothing is asked; a larger one adds to a smaller one.
    """
    from tasks.judging.agreement.experts import judges_against_people

    if settings.evaluate.sample is not None:
        with redirect_stdout(sys.stderr if as_json else sys.stdout):
            run_stages(settings, ("flows.evaluate", "vote"))
    found = judges_against_people(existing(settings.store), settings.bootstraps, settings.seed)
    print_agreement(found, as_json)
