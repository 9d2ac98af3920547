"""`curate tags`: how good tags are, and how they are distributed."""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.options import (
    BudgetOption,
    JsonOption,
    PricesOption,
    ProviderOption,
    SeedOption,
    StoreOption,
    settings_of,
)
from schemas.errors import BadInput
from schemas.row import Row
from schemas.tags import Share, TagAgreement, TagDisagreement
from tasks.runtime.untrusted import json_text

if TYPE_CHECKING:
    import polars as pl

    from flows.commands.tag_sources import Sides

_FIGURES = ("accuracy", "precision", "recall", "f1", "kappa")


def family() -> typer.Typer:
    """The sub-commands of `curate tags`."""
    tags = typer.Typer(no_args_is_help=True, help="How good tags are, and how they are distributed.")
    for command in (evaluate, show):
        tags.command()(command)
    return tags


def evaluate(
    tagger: Annotated[str, typer.Argument(help="Provider of the signal, or a file of labels (CSV, JSONL).")],
    reference: Annotated[
        str, typer.Argument(help="Another provider, a file of human labels, or reviews (of `curate review --serve`).")
    ],
    signal: Annotated[str, typer.Option("--signal", help="categories, criteria or taxonomy.")] = "categories",
    store: Annotated[str | None, typer.Option("--store", help="Documents: those that this store keeps.")] = None,
    items: Annotated[
        Path | None, typer.Option("--items", help="Documents: JSONL or CSV with id, prompt, and images (files).")
    ] = None,
    sample: Annotated[int, typer.Option("--sample", min=1, help="Documents of a store that two taggers see.")] = 200,
    shown: Annotated[int, typer.Option("--disagreements", min=0, help="Disagreements listed for each label.")] = 5,
    budget: BudgetOption = None,
    prices: PricesOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Accuracy, precision, recall, F1 and Cohen's kappa of a tagger against another or against human labels.

    Missing tags of stored documents are requested from the provider and stored, as in any run.
    """
    from flows.commands.tag_sources import both_sides
    from tasks.runtime.budget import one_ledger
    from tasks.signals.tag_evaluation import agreements, disagreements, labels_of

    settings = settings_of(store=store or "", budget=budget, prices=prices, seed=seed)
    with one_ledger(settings.budget_usd, settings.prices):
        sides = both_sides(tagger, reference, signal, store, items, sample, settings, datetime.now(UTC))
    tags = [tag for tag in labels_of(signal) if any(tag in said for said in sides.reference.values())]
    rows = agreements(sides.tagger, sides.reference, tags, seed=seed)
    if not any(row.items for row in rows):
        raise BadInput(f"{tagger!r} and {reference!r} have no decided item in common; compare their ids")
    differ = _first_of_each(disagreements(sides.tagger, sides.reference, tags, sides.prompts), shown)
    _print_evaluation(rows, list(differ), sides, as_json)


def _first_of_each(rows: Iterable[TagDisagreement], most: int) -> Iterable[TagDisagreement]:
    seen: dict[str, int] = {}
    for row in rows:
        seen[row.tag] = seen.get(row.tag, 0) + 1
        if seen[row.tag] <= most:
            yield row


def _print_evaluation(
    rows: Sequence[TagAgreement], differ: Sequence[TagDisagreement], sides: "Sides", as_json: bool
) -> None:
    for failure, count in sides.failures.items():
        print(f"curate: FAILED {failure}: {count}", file=sys.stderr)
    if as_json:
        for row in (*rows, *differ):
            print(json_text(row.model_dump(mode="json")))
        return
    print(f"{'label':<22}{'items':>6}{'undecided':>10}  " + "".join(f"{name:<22}" for name in _FIGURES).rstrip())
    for row in rows:
        figures = "".join(f"{_in_words(getattr(row, name)):<22}" for name in _FIGURES)
        print(f"{row.tag:<22}{row.items:>6}{row.undecided:>10}  {figures.rstrip()}")
    if differ:
        print("\ndisagreements (label: tagger / reference, item, prompt)")
    for each in differ:
        print(f"  {each.tag}: {each.tagger} / {each.reference}  {each.item}  {each.prompt}")


def _in_words(share: Share) -> str:
    return "-" if share.value is None else f"{share.value:.3f} [{share.ci95_low:.3f}, {share.ci95_high:.3f}]"


def show(store: StoreOption, provider: ProviderOption = None, as_json: JsonOption = False) -> None:
    """Share of kept conversations with each tag, criterion and taxonomy category, and overlaps of tags."""
    from tasks.storage.queries.conversation_features import (
        ALL_TAGS,
        CRITERIA,
        TAXONOMY,
        overlap,
        tag_counts,
        tallied,
        taxonomy_counts,
    )

    kept = _kept(settings_of(store=store, provider=provider))
    sections: dict[str, list[Row]] = {
        "tags": [*tag_counts(tallied(kept, ALL_TAGS), ALL_TAGS)],
        "criteria": [*tag_counts(tallied(kept, CRITERIA), CRITERIA)],
        "taxonomy": [*taxonomy_counts(tallied(kept, TAXONOMY))],
    }
    table = overlap(tallied(kept, ALL_TAGS), ALL_TAGS)
    if as_json:
        for name, rows in sections.items():
            for row in rows:
                print(json.dumps({"section": name, **row.model_dump(mode="json")}))
        for shares in table.iter_rows(named=True):
            print(json.dumps({"section": "overlap", **shares}))
        return
    print(f"{kept.height:,} kept conversations")
    for name, rows in sections.items():
        print(f"\n{name:<58}{'items':>8}{'share':>8}{'not told':>10}")
        for row in rows:
            print("{tag:<58}{items:>8,}{share:>8.1%}{not_told:>10,}".format(**row.model_dump()))
    _print_overlap(table)


def _print_overlap(table: "pl.DataFrame") -> None:
    print("\noverlap: of the conversations with the tag of the row, % that have the tag of the column")
    print(" " * 20 + "".join(f"{name[:8]:>9}" for name in table.columns[1:]))
    for tag, *shares in table.iter_rows():
        cells: Any = ("-" if share is None else f"{100 * share:.0f}" for share in shares)
        print(f"{tag:<20}" + "".join(f"{cell:>9}" for cell in cells))


def _kept(settings: Any) -> "pl.DataFrame":
    """Kept conversations with every tag. Raises BadInput for a store without decisions."""
    import polars as pl

    from tasks.providers import Providers
    from tasks.signals.steps import signal_versions
    from tasks.storage.queries.conversation_features import conversation_features, with_labels
    from tasks.storage.queries.released import conversations_as_released
    from tasks.storage.tables import Store

    store = Store.existing(settings.store)
    ids = store.read("decisions", ["item_kind", "item_id", "keep"]).filter("keep", item_kind="conversation")["item_id"]
    if ids.is_empty():
        raise BadInput(f"store {settings.store!r} keeps no conversation; run `curate run` or `curate decide` first")
    kept = conversations_as_released(store).filter(pl.col("conversation_id").is_in(ids.implode()))
    versions = signal_versions(Providers(settings.providers))
    features = conversation_features(store, kept, versions)
    return with_labels(store, kept, versions).join(features, on="conversation_id", maintain_order="left")
