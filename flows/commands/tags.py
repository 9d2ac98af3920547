"""`curate tags` and `curate topics`: how good tags are, and what is in a store."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import JsonOption, PricedDryRunOption, existing, measured_versions, takes
from flows.commands.tables import note, print_rows
from schemas.errors import BadInput
from schemas.row import Row
from schemas.run import Prices, Use
from schemas.settings import Settings
from schemas.tags import Share, TagAgreement, TagDisagreement, TagFigures, TaggingCost

if TYPE_CHECKING:
    import polars as pl

_FIGURES = ("accuracy", "precision", "recall", "f1", "kappa")


@takes("store", "providers", "budget_usd", "prices", "seed", store="")
def evaluate(
    settings: Settings,
    sides: Annotated[
        list[str],
        typer.Argument(
            metavar="LABELS… | TAGGER REFERENCE",
            help="Labels of people (CSV, JSONL), against which --provider is held; or two sides: provider of the "
            "signal, models file (YAML) with one entry, labels without prompts, or reviews (of `curate review serve`).",
        ),
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
    answers: Annotated[
        str,
        typer.Option(
            "--answers", help="Folder that keeps a service's answers about prompts of files, for later calls."
        ),
    ] = "tag-answers",
    sample: Annotated[int, typer.Option("--sample", min=1, help="Documents of a store that two taggers see.")] = 200,
    first: Annotated[int, typer.Option("--first", min=0, help="Disagreements listed for each label.")] = 5,
    dry_run: PricedDryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """How good tags are: a provider against people's labels, with cost and time, or one side against another.

    Against LABELS: for each tag n, precision, recall and how often the tagger does not know, on lines that the embedded
    rules were made with (`made_with`) and on others. Two sides: accuracy, precision, recall, F1 and Cohen's kappa. The
    cost of what is missing is printed first; answers are stored, and not asked for again.
    """
    from flows.commands.estimate import print_estimates, tokens_in
    from flows.commands.tag_sources import are_label_files, labels_to_evaluate, sides_to_compare
    from tasks.runtime.budget import check_prices, ledger, load_prices, one_ledger
    from tasks.signals.tag_evaluation import agreements, disagreements, labels_of_signal, tag_figures

    one_provider = are_label_files(sides)
    if one_provider:
        if len(prompts or ()) > 1:
            raise BadInput(f"--prompts is given {len(prompts or ())} times; one provider has one folder")
        compared = labels_to_evaluate(sides, prompts[0] if prompts else None, signal, documents, answers, settings)
    elif len(sides) == 2:
        compared = sides_to_compare(sides, prompts or (), signal, documents, sample, settings, answers)
    else:
        raise BadInput(f"{len(sides)} sides are given; give files of labels, or a tagger and a reference")
    prices = load_prices(settings.prices)
    if settings.budget_usd is not None:
        check_prices(prices, [side.providers[signal] for side in compared.askable if side])
    costs = compared.costs(prices, tokens_in())
    if dry_run:
        print_estimates(costs, settings, as_json)
        return
    if costs:
        print_estimates(costs, settings, err=True)
    with one_ledger(settings.budget_usd, settings.prices):
        began = perf_counter()
        comparison = compared.sides(datetime.now(UTC))
        seconds, use = compared.seconds + perf_counter() - began, ledger().use()
    for failure, count in comparison.failures.items():
        note(f"FAILED {failure}: {count}")
    tags = [tag for tag in labels_of_signal(signal) if any(tag in label for label in comparison.reference.values())]
    if one_provider:
        _print_figures(tag_figures(comparison.tagger, comparison.reference, tags, compared.made_with), as_json)
        service = getattr(compared.askable[0].providers[signal], "service", "") if compared.askable[0] else ""
        _print_cost(_cost(service, comparison.asked, use.get(service, Use()), prices, seconds), as_json)
        return
    for name, labels in zip(sides, compared.labels, strict=True):
        if comparison.prompts and (apart := len((labels or {}).keys() - comparison.prompts.keys())):
            note(f"note: {name!r}: {apart:,} of {len(labels or {}):,} ids are of no document here; they are left out")
    rows = agreements(comparison.tagger, comparison.reference, tags, seed=settings.seed)
    if not any(row.items for row in rows):
        raise BadInput(f"{sides[0]!r} and {sides[1]!r} have no decided item in common; compare their ids")
    differ = disagreements(comparison.tagger, comparison.reference, tags, comparison.prompts)  # sorted by tag
    examples = [row for _, of_tag in groupby(differ, attrgetter("tag")) for row in islice(of_tag, first)]
    _print_evaluation(rows, examples, as_json)


def _print_figures(rows: Iterable[TagFigures], as_json: bool) -> None:
    """One row a tag for people, with seen beside unseen; one object a tag and material in JSON."""
    if as_json:
        print_rows("figures", list(rows), as_json)
        return
    row_of_tag = dict[str, dict[str, object]]()
    for row in rows:
        unknown = "-" if row.not_known is None else f"{row.not_known:.2f}"
        cells = {"true": f"{row.true:,} of {row.items:,}", "null": unknown}
        cells |= {name: _in_words(getattr(row, name), 2) for name in ("precision", "recall")}
        row_of_tag.setdefault(row.tag, {"tag": row.tag}).update(
            {f"{name} {row.material}": cell for name, cell in cells.items()}
        )
    print_rows("figures", list(row_of_tag.values()))


def _cost(service: str, items: int, use: Use, prices: Prices, seconds: float) -> TaggingCost:
    priced = not service or prices.tokens(service) is not None or service in prices.unit_prices
    return TaggingCost(
        service=service,
        items=items,
        **use.model_dump(include={"calls", "input_tokens", "output_tokens"}),
        usd=use.usd + use.usd_unconfirmed if priced else None,
        seconds=seconds,
        items_per_second=items / seconds if items and seconds else None,
    )


def _print_cost(cost: TaggingCost, as_json: bool) -> None:
    if as_json:
        print_rows("cost", [cost], as_json)
        return
    usd = f"unknown, as the price file has no price for {cost.service!r}" if cost.usd is None else f"${cost.usd:.4f}"
    if cost.service:
        tokens = f"{cost.input_tokens:,} + {cost.output_tokens:,} tokens, {cost.calls:,} calls"
        print(f"\ncost: {usd} ({tokens}) for {cost.items:,} items; answers that are stored cost nothing")
    else:
        print(f"\ncost: nothing; a model in this process, no tokens, {cost.items:,} items")
    speed = "" if cost.items_per_second is None else f", {cost.items_per_second:.1f} items a second"
    print(f"time: {cost.seconds:.1f} seconds{speed}")


def _print_evaluation(rows: Sequence[TagAgreement], differ: Sequence[TagDisagreement], as_json: bool) -> None:
    if as_json:
        print_rows("labels", [*rows, *differ], as_json)
        return
    counts = ("tag", "items", "undecided")
    figure_rows = [
        {name: getattr(row, name) for name in counts} | {name: _in_words(getattr(row, name)) for name in _FIGURES}
        for row in rows
    ]
    print_rows("labels", figure_rows)
    if differ:
        print("\ndisagreements (label: tagger / reference, item, prompt)")
    for disagreement in differ:
        print(
            f"  {disagreement.tag}: {disagreement.tagger} / {disagreement.reference}  {disagreement.item}  "
            f"{disagreement.prompt}"
        )


def _in_words(share: Share, digits: int = 3) -> str:
    if share.value is None:
        return "-"
    return f"{share.value:.{digits}f} [{share.ci95_low:.{digits}f}, {share.ci95_high:.{digits}f}]"


@takes("store", "providers", "prompts")
def show(settings: Settings, as_json: JsonOption = False) -> None:
    """Share of kept conversations with each tag, criterion and taxonomy category, and overlaps of tags."""
    from tasks.storage.queries import conversation_features as of

    kept, every = _kept(settings), (*of.ALL_TAGS, *of.PROMPT_KINDS)
    sections: dict[str, list[Row]] = {
        "tags": [*of.tag_counts(of.tallied(kept, every), every)],
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
    from tasks.storage.queries.conversation_features import (
        ALL_TAGS,
        CRITERIA,
        PROMPT_KINDS,
        TAXONOMY,
        conversation_features,
    )

    store = existing(settings.store)
    kept_ids = store.ask("SELECT conversation_id FROM kept")["conversation_id"]
    if kept_ids.is_empty():
        raise BadInput(f"store {settings.store!r} keeps no conversation; run `curate run` or `curate decide` first")
    columns = (*ALL_TAGS, *PROMPT_KINDS, *CRITERIA, *TAXONOMY)
    return conversation_features(store, kept_ids, measured_versions(settings), columns)


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
