"""`curate tags` and `curate topics`: how good tags are, and what is in a store."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import JsonOption, PricedDryRunOption, existing, measured_versions, takes
from flows.commands.tables import note, print_rows
from schemas.errors import BadInput
from schemas.row import Row
from schemas.settings import Settings
from schemas.tags import Share, TagAgreement, TagDisagreement

if TYPE_CHECKING:
    import polars as pl

    from flows.commands.tag_sources import Sides

_FIGURES = ("accuracy", "precision", "recall", "f1", "kappa")


@takes("store", "budget_usd", "prices", "seed", store="")
def evaluate(
    settings: Settings,
    tagger: Annotated[
        str, typer.Argument(help="Provider of the signal, models file (YAML) with one entry, or labels (CSV, JSONL).")
    ],
    reference: Annotated[
        str, typer.Argument(help="Another of these, the labels of people, or reviews (of `curate review serve`).")
    ],
    prompts: Annotated[
        list[str] | None,
        typer.Option("--prompts", help="Folder of prompts that take the place of ours; given twice, one a side."),
    ] = None,
    signal: Annotated[str, typer.Option("--signal", help="categories, criteria or taxonomy.")] = "categories",
    documents: Annotated[
        Path | None,
        typer.Option("--documents", help="JSONL or CSV with id, prompt, and images (files), in place of a store's."),
    ] = None,
    sample: Annotated[int, typer.Option("--sample", min=1, help="Documents of a store that two taggers see.")] = 200,
    first: Annotated[int, typer.Option("--first", min=0, help="Disagreements listed for each label.")] = 5,
    dry_run: PricedDryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Accuracy, precision, recall, F1 and Cohen's kappa of a tagger against another or against human labels.

    On documents that a store keeps, or on those of a file. The cost of what is missing is printed first; then it is
    requested and, for stored documents, stored, as in any run.
    """
    from flows.commands.estimate import print_estimates, tokens_in
    from flows.commands.tag_sources import sides_to_compare
    from tasks.runtime.budget import load_prices, one_ledger
    from tasks.signals.tag_evaluation import agreements, disagreements, labels_of_signal

    compared = sides_to_compare((tagger, reference), prompts or (), signal, documents, sample, settings)
    costs = compared.costs(load_prices(settings.prices), tokens_in())
    if dry_run:
        print_estimates(costs, settings, as_json)
        return
    if costs:
        print_estimates(costs, settings, err=True)
    with one_ledger(settings.budget_usd, settings.prices):
        sides = compared.sides(datetime.now(UTC))
    for name, labels in zip((tagger, reference), compared.labels, strict=True):
        if sides.prompts and (apart := len((labels or {}).keys() - sides.prompts.keys())):
            note(f"note: {name!r}: {apart:,} of {len(labels or {}):,} ids are of no document here; they are left out")
    tags = [tag for tag in labels_of_signal(signal) if any(tag in said for said in sides.reference.values())]
    rows = agreements(sides.tagger, sides.reference, tags, seed=settings.seed)
    if not any(row.items for row in rows):
        raise BadInput(f"{tagger!r} and {reference!r} have no decided item in common; compare their ids")
    differ = disagreements(sides.tagger, sides.reference, tags, sides.prompts)  # sorted by tag
    shown = [row for _, of_tag in groupby(differ, attrgetter("tag")) for row in islice(of_tag, first)]
    _print_evaluation(rows, shown, sides, as_json)


def _print_evaluation(
    rows: Sequence[TagAgreement], differ: Sequence[TagDisagreement], sides: "Sides", as_json: bool
) -> None:
    for failure, count in sides.failures.items():
        note(f"FAILED {failure}: {count}")
    if as_json:
        print_rows("labels", [*rows, *differ], as_json)
        return
    counts = ("tag", "items", "undecided")
    shown = [
        {name: getattr(row, name) for name in counts} | {name: _in_words(getattr(row, name)) for name in _FIGURES}
        for row in rows
    ]
    print_rows("labels", shown)
    if differ:
        print("\ndisagreements (label: tagger / reference, item, prompt)")
    for each in differ:
        print(f"  {each.tag}: {each.tagger} / {each.reference}  {each.item}  {each.prompt}")


def _in_words(share: Share) -> str:
    return "-" if share.value is None else f"{share.value:.3f} [{share.ci95_low:.3f}, {share.ci95_high:.3f}]"


@takes("store", "providers", "prompts")
def show(settings: Settings, as_json: JsonOption = False) -> None:
    """Share of kept conversations with each tag, criterion and taxonomy category, and overlaps of tags."""
    from tasks.storage.queries import conversation_features as of

    kept = _kept(settings)
    sections: dict[str, list[Row]] = {
        "tags": [*of.tag_counts(of.tallied(kept, of.ALL_TAGS), of.ALL_TAGS)],
        "criteria": [*of.tag_counts(of.tallied(kept, of.CRITERIA), of.CRITERIA)],
        "taxonomy": [*of.taxonomy_counts(of.tallied(kept, of.TAXONOMY))],
    }
    table = of.overlap(of.tallied(kept, of.ALL_TAGS), of.ALL_TAGS)
    for name, rows in sections.items():
        if as_json:
            print_rows(name, [{"section": name, **row.model_dump(mode="json")} for row in rows], as_json)
        else:
            print_rows(name, rows, titled=True)
    if as_json:
        print_rows("overlap", [{"section": "overlap", **shares} for shares in table.to_dicts()], as_json)
        return
    print("\noverlap: of the conversations with the tag of the row, % that have the tag of the column")
    percents = [
        {name[:8]: share if isinstance(share, str | None) else round(100 * share) for name, share in shares.items()}
        for shares in table.to_dicts()
    ]
    print_rows("overlap", percents)


def _kept(settings: Settings) -> "pl.DataFrame":
    """Kept conversations with every tag. Raises BadInput for a store without decisions."""
    from tasks.storage.queries.conversation_features import ALL_TAGS, CRITERIA, TAXONOMY, conversation_features

    store = existing(settings.store)
    kept_ids = store.ask("SELECT conversation_id FROM kept")["conversation_id"]
    if kept_ids.is_empty():
        raise BadInput(f"store {settings.store!r} keeps no conversation; run `curate run` or `curate decide` first")
    return conversation_features(store, kept_ids, measured_versions(settings), (*ALL_TAGS, *CRITERIA, *TAXONOMY))


@takes("store", others=False)
def show_topics(
    settings: Settings,
    first: Annotated[int, typer.Option("--first", min=1, help="Topics to list, the largest first.")] = 30,
    as_json: JsonOption = False,
) -> None:
    """Topics with their names, and the prompts and conversations in each; -1 holds the outliers."""
    from tasks.storage.queries.bench import topic_sizes

    topics = topic_sizes(existing(settings.store))
    if topics.is_empty():
        raise BadInput(f"store {settings.store!r} has no topics; `curate sample` finds them")
    rows = topics.to_dicts()
    print_rows("topics", rows if as_json else rows[:first], as_json)
    if len(rows) > first and not as_json:
        print(f"… {len(rows) - first:,} more; all with --first {len(rows)}")
