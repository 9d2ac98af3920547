"""`curate bench show`, `refresh`, `check` and `failures`: the drawn benchmark, its hidden split, checks of datasets."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import JsonOption, existing, takes
from flows.commands.pipeline import run_stages
from flows.commands.tables import print_rows
from schemas.errors import BadInput
from schemas.settings import Settings

if TYPE_CHECKING:
    from schemas.benches.bench import Overlap

_SHOWN = 20
"""Questions found that are printed; all with --json."""


@takes("store", others=False)
def show(settings: Settings, as_json: JsonOption = False) -> None:
    """Prompts after each filter, prompts drawn per topic, how well they represent the arena, and the hidden split."""
    from tasks.storage.queries.bench import bench_tables

    for name, rows in bench_tables(existing(settings.store)).items():
        print_rows(name, rows.to_dicts(), as_json, titled=True)


@takes("store", "providers", "prompts", "seed")
def refresh(settings: Settings, as_json: JsonOption = False) -> None:
    """Draw both splits again and list the hidden prompts that enter or retire, with reasons.

    Months only go forward; `--set bench.hidden_epoch=YYYY-MM` sets it, by default it is that of the last data.
    """
    from tasks.storage.queries.bench import changes_of_hidden

    run_stages(settings, ("flows.release", "bench"), as_json)
    changes = changes_of_hidden(existing(settings.store)).to_dicts()
    print_rows("hidden_changes", changes, as_json, titled=True)


def check(
    dataset: Annotated[
        Path | None,
        typer.Argument(
            help="JSON, CSV, TSV or Parquet file, or a folder of Parquet files.", show_default="the store's chats"
        ),
    ] = None,
    store: Annotated[str | None, typer.Option("--store", help="Store with the benchmark, public and hidden.")] = None,
    release: Annotated[
        Path | None, typer.Option("--bench-release", help="Folder of a release with the benchmark.")
    ] = None,
    column: Annotated[
        str | None, typer.Option("--column", help="Column of texts or messages.", show_default="all known ones")
    ] = None,
    overlap_min: Annotated[
        float,
        typer.Option(
            "--overlap-min", min=0.05, max=1.0, help="Minimum share of a question's four-word sequences in a row."
        ),
    ] = 0.5,
    as_json: JsonOption = False,
) -> None:
    """Find questions of the benchmark in any dataset. Exit 0: none found; 1: some found; 2: bad input.

    Without a dataset: how many of the store's chats hold what is in each of `known_benchmarks`, and exit 0 for none.
    """
    from flows.products import hidden_texts, item_ids
    from tasks.bench.contamination.check import Checker, questions_of_release, questions_of_store

    if dataset is None:
        if release is not None or column is not None:
            raise BadInput("--bench-release and --column are for a DATASET; name it, or leave them out")
        _check_chats(store, as_json)
        return
    if (store is None) == (release is None):
        raise BadInput("give either --store DIR or --bench-release DIR, the one that holds the benchmark")
    if store is not None:
        opened = existing(store)
        bench = questions_of_store(opened, item_ids(opened), hidden_texts(opened))
    else:
        bench = questions_of_release(release or Path())
    if bench.is_empty():
        raise BadInput(f"{store or str(release)!r} has no benchmark; draw one with `curate sample`")
    checker = Checker(bench, overlap_min)
    for number, overlap in enumerate(checker.overlaps(dataset, column)):
        if as_json:
            print(overlap.model_dump_json())
        elif number <= _SHOWN:
            print(_in_words(overlap) if number < _SHOWN else "… more; all with --json")
    counted = checker.counted
    matches = ", ".join(f"{name} {count:,}" for name, count in counted.matches.items())
    print(
        f"{counted.rows:,} rows hold {counted.questions_found:,} of {counted.questions:,} questions: {matches}; "
        f"{counted.short:,} short ones without their image",
        file=sys.stderr if as_json else sys.stdout,
    )
    if counted.questions_found:
        raise typer.Exit(1)


def _check_chats(store: str | None, as_json: bool) -> None:
    """Print the chats of a store that hold what is in each known benchmark. Exit 1 when there are any."""
    from tasks.storage.queries.bench import known_counts

    if store is None:
        raise BadInput("give a DATASET to search, or --store DIR for its own chats and the benchmarks it knows")
    counts = known_counts(existing(store))
    if counts.is_empty():
        raise BadInput(
            f"store {store!r} knows no benchmarks of others; give `curate run` or `curate decide` "
            "--set known_benchmarks=FOLDER, or a key in curate.yaml; or give a DATASET to search"
        )
    print_rows("known benchmarks", counts.to_dicts(), as_json)
    if counts["conversations"].sum():
        raise typer.Exit(1)


@takes("store", others=False)
def failures(settings: Settings, as_json: JsonOption = False) -> None:
    """Prompts that several people voted both bad: error rates by model and type, and every model's mark at each.

    O: a reviewer says the answer is right; X: one says it is wrong, or every vote says both bad; R: a measured refusal;
    ?: nobody has said. O* and X* are what `curate judge failures` proposes, until a person says.
    """
    from tasks.storage.queries.failures import failure_tables

    for name, rows in failure_tables(existing(settings.store)).items():
        print_rows(name, rows.to_dicts(), as_json, titled=True)


def _in_words(overlap: "Overlap") -> str:
    evidence = "" if overlap.contaminated else "  (short: not evidence)"
    question = f"{overlap.split} {json.dumps(overlap.question_id)}"
    return f"row {overlap.row:<9,} {overlap.match:<10} {overlap.overlap:>5.2f}  {question}{evidence}"
