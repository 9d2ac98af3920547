"""`curate judge submit` to a benchmark made on demand: answers are marked by its keys, and no judge is asked."""

import sys
from pathlib import Path

import polars as pl

from flows.commands.tables import print_table


def is_keyed(store: str, bench: str) -> bool:
    """Whether a store has a benchmark made on demand of this name."""
    from tasks.storage.tables import Store

    return bench in Store.existing(store).read("generated_benches", ["bench"])["bench"]


def submit_keyed(store: str, bench: str, answers: Path, model: str, dry_run: bool, as_json: bool) -> None:
    """Take in a model's answers and print its accuracy, overall and by level. Raises BadInput."""
    from flows.commands.judge.submit import say_read
    from tasks.bench.generate.results.accuracy import accuracy, mark
    from tasks.evaluate.submission.keyed import keep_keyed, read_keyed
    from tasks.storage.lock import writing
    from tasks.storage.queries.benches.generated_items import kept_items
    from tasks.storage.tables import Store

    opened = Store.existing(store)
    handed = read_keyed(opened, bench, answers, model)
    say_read(handed)
    if dry_run:
        print(f"curate: {len(handed.answers):,} answers would be taken in", file=sys.stderr)
        return
    with writing(store) as locked:
        new = keep_keyed(locked, handed)
    print(f"curate: {len(handed.answers):,} answers, {new:,} of them new", file=sys.stderr)
    items = kept_items(opened, bench).items
    own = opened.read("answers").filter(pl.col("model") == model, pl.col("version") == handed.version)
    rows = accuracy(items, mark(items, own), ["overall", "level"])
    print_table("accuracy", [row.model_dump(mode="json", exclude={"rank"}) for row in rows], as_json)
    print(f"curate: beside other models: `curate bench accuracy --bench {bench}`", file=sys.stderr)
