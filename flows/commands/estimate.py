"""`curate estimate`: the cost of a run at paid services, before anything is sent."""

import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from typing import Annotated

import typer

from flows.commands.options import JsonOption, existing, takes
from flows.commands.tables import note
from flows.products import PRODUCTS
from schemas.errors import BadInput
from schemas.run import Estimate
from schemas.settings import Settings


@takes(
    "store", "logs", "source", "format", "images", "presets", "since", "until", "providers", "prompts", "prices",
    "with_answers",
    "evaluate.models", "evaluate.judge", "evaluate.baseline", "evaluate.protocol", "evaluate.sample",
    "evaluate.bench", "evaluate.bench_release", "evaluate.hidden", shared=Settings.model_fields.keys() - {"evaluate"},
)  # fmt: skip
def estimate(
    settings: Settings,
    writer: Annotated[
        str | None, typer.Option("--writer", help="Estimate `curate bench write` with this models file instead.")
    ] = None,
    scale: Annotated[
        bool, typer.Option("--scale", help="Estimate hours, memory and disk of a first run over --logs instead.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Estimate calls, tokens and US dollars for everything that is not measured yet. Sends nothing.

    Of the content of the store, or of --logs. With --models it estimates `curate judge answer` instead, with --judge
    `curate judge compare`, with --judge and --sample `curate judge votes`, with --writer `curate bench write`,
    and with --scale the hours, memory and disk of a first run.
    """
    chosen = settings.evaluate
    if scale:
        print(_scale(settings, as_json))
        return
    of_judge = chosen.models or chosen.judge
    if chosen.bench and not (writer or chosen.hidden or of_judge):
        raise BadInput("--bench needs --models FILE, the models that would answer it, --judge FILE or --writer FILE")
    is_of_products = writer or chosen.hidden or of_judge or chosen.sample
    print_estimates(_of_products(settings, writer) if is_of_products else _estimates(settings), settings, as_json)


def print_estimates(estimates: list[Estimate], settings: Settings, as_json: bool = False, err: bool = False) -> None:
    """Print a line for each service, and on stderr which prices are not confirmed."""
    from tasks.runtime.budget import load_prices

    for row in estimates:
        text = row.model_dump_json() if as_json else _in_words(row)
        print(f"curate: {text}" if err else text, file=sys.stderr if err else sys.stdout)
    if not as_json and not estimates:
        print("no paid service is chosen, or nothing is left to ask it; it would cost nothing")
    for line in load_prices(settings.prices).doubts(row.service for row in estimates):
        note(line)


def _of_products(settings: Settings, writer: str | None) -> list[Estimate]:
    """Estimates of what a product would ask. Raises BadInput where no product here does it."""
    for product in PRODUCTS:
        if product.estimates:
            rows: list[Estimate] | None = import_module(product.estimates).ESTIMATES(settings, writer)
            if rows is not None:
                return rows
    raise BadInput(
        "no product here asks models or judges; leave out --writer, --models, --judge, --sample and --hidden"
    )


def tokens_in() -> Callable[[str], int]:
    """Counts the tokens of a text."""
    from tasks.providers import token_count

    return token_count


def _estimates(settings: Settings) -> list[Estimate]:
    from flows.before_work import check_before_work
    from flows.commands.engine import prepare_engine
    from tasks.storage.tables import Store

    with tempfile.TemporaryDirectory(prefix="curate-estimate-") as folder:
        tried = f"{folder}/tried"
        prepare_engine(tried)  # before anything imports Prefect
        from flows.running.costs import estimates_of_run

        if settings.logs is None and settings.source is None:
            store = existing(settings.store)
            check_before_work(settings)
            return estimates_of_run(settings, store, store, tried, _on_its_own)
        elsewhere = settings.model_copy(update={"store": f"{folder}/logged"})
        check_before_work(elsewhere)
        from tasks.ingest.steps import assemble, read_log_lines, take_in_images
        from tasks.ingest.take_in import NoObserver

        read_log_lines.fn(elsewhere)
        take_in_images.fn(elsewhere, NoObserver())
        assemble.fn(elsewhere)
        return estimates_of_run(settings, Store(settings.store), existing(elsewhere.store), tried, _on_its_own)


def _on_its_own(settings: Settings) -> None:
    """Screen and decide a store of its own, as a command."""
    from flows.commands.engine import run_flows
    from flows.stages import decide, screen

    run_flows(settings, lambda: screen, lambda: decide)


def _scale(settings: Settings, as_json: bool) -> str:
    """Time and room of a first run over the logs. Their lines are read into a temporary store; no image is opened."""
    from tasks.ingest.steps import assemble, read_log_lines
    from tasks.storage.tables import Store
    from tasks.upkeep.standing import expected

    with tempfile.TemporaryDirectory(prefix="curate-estimate-") as folder:
        elsewhere = settings.model_copy(update={"store": folder})
        read_log_lines.fn(elsewhere)
        assemble.fn(elsewhere)
        store = Store.existing(folder)
        # the only row has the number of distinct names of images in the log lines
        counts = store.ask(
            "SELECT count(DISTINCT image) AS images FROM (SELECT unnest(images) AS image FROM sightings)"
        )
        images = int(counts["images"][0])
        read, turns = store.read("log_files", ["lines", "tail_lines"]), store.read("conversations", ["num_turns"])
        lines, messages = (int(sum(column.sum() or 0 for column in table.get_columns())) for table in (read, turns))
        need = expected(lines, turns.height, 2 * messages, images, settings.workers)
    if as_json:
        return need.model_dump_json()
    return (
        f"{need.lines:,} lines, {need.conversations:,} conversations, {need.messages:,} messages, "
        f"{need.images:,} images: about {need.hours:g} hours with embedded models on {need.workers} cores, "
        f"{need.peak_mb:,} MB of memory and {need.disk_mb:,} MB of disk"
    )


def _in_words(row: Estimate) -> str:
    """One line: service, calls, tokens, money."""
    amount = f"{row.units:,} units" if row.units else f"{row.input_tokens:,} + {row.output_tokens:,} tokens"
    if row.usd is None or row.usd_most is None:
        where = f" under `{'units' if row.units else 'tokens'}`" if row.calls else ""
        money = f"no price known{where}: give --prices FILE"
    else:
        money = f"{_dollars(row.usd)}, at most {_dollars(row.usd_most)}"
    batch = " (with --batch)" if row.mode == "batch" else ""
    return (
        f"{row.service}  {row.mode}{batch}  {row.signals}: {row.items:,} items, {row.calls:,} calls, {amount}, {money}"
    )


def _dollars(usd: float) -> str:
    """Four decimals; a smaller amount is not told as nothing."""
    if usd >= 0.0001:
        return f"${usd:.4f}"
    return "less than $0.0001" if usd else "$0"
