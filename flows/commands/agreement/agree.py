"""`curate judge agree`: how far files of labels agree."""

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.agreement.printing import print_agreement, print_raters
from flows.commands.options import BootstrapsOption, JsonOption, SeedOption
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
    from tasks.agreement.agree import agreement, rater_agreement
    from tasks.agreement.label_files import read_labels

    if twice := next((file for file in files if files.count(file) > 1), None):
        raise BadInput(f"{str(twice)!r} is given twice; give files of different people or judges")
    stems = [file.stem for file in files]
    read = [read_labels(file, file.stem if stems.count(file.stem) == 1 else str(file)) for file in files]
    if len(read) == 1:
        print_raters([rater_agreement(read[0], bootstraps, seed)], as_json)
    else:
        print_agreement([agreement(read[0], each, bootstraps, seed) for each in read[1:]], as_json)
