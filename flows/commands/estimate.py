"""`curate estimate`: the cost of a run at paid services, before anything is sent."""

import sys
import tempfile
from collections.abc import Callable, Collection
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import JsonOption, existing, takes
from flows.commands.tables import note
from flows.products import PRODUCTS, unscreened_judge_texts
from schemas.errors import BadInput
from schemas.run import Estimate
from schemas.settings import Settings
from tasks.runtime.progress import tell

if TYPE_CHECKING:
    from tasks.providers import Providers
    from tasks.storage.tables import Store

TRIED = 300
"""Documents that are screened to know what the policy drops, where it has decided nothing so far."""


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
    asked = writer or chosen.hidden or of_judge or chosen.sample
    print_estimates(_of_products(settings, writer) if asked else _estimates(settings), settings, as_json)


def print_estimates(found: list[Estimate], settings: Settings, as_json: bool = False, err: bool = False) -> None:
    """Print a line for each service, and on stderr which prices are not confirmed."""
    from tasks.runtime.budget import load_prices

    for row in found:
        said = row.model_dump_json() if as_json else _in_words(row)
        print(f"curate: {said}" if err else said, file=sys.stderr if err else sys.stdout)
    if not as_json and not found:
        print("no paid service is chosen, or nothing is left to ask it; it would cost nothing")
    for line in load_prices(settings.prices).doubts(row.service for row in found):
        note(line)


def _of_products(settings: Settings, writer: str | None) -> list[Estimate]:
    """Estimates of what a product would ask. Raises BadInput where no product here does it."""
    for product in PRODUCTS:
        if product.estimates:
            rows: list[Estimate] | None = import_module(product.estimates).estimates(settings, writer)
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
        if settings.logs is None and settings.source is None:
            store = existing(settings.store)
            check_before_work(settings)
            return _of(settings, store, store, tried)
        elsewhere = settings.model_copy(update={"store": f"{folder}/logged"})
        check_before_work(elsewhere)
        from tasks.ingest.steps import assemble, read_log_lines, take_in_images
        from tasks.ingest.take_in import NoObserver

        read_log_lines.fn(elsewhere)
        take_in_images.fn(elsewhere, NoObserver())
        assemble.fn(elsewhere)
        return _of(settings, Store(settings.store), existing(elsewhere.store), tried)


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
        lines, messages = (int(sum(each.sum() or 0 for each in table.get_columns())) for table in (read, turns))
        found = expected(lines, turns.height, 2 * messages, images, settings.workers)
    if as_json:
        return found.model_dump_json()
    return (
        f"{found.lines:,} lines, {found.conversations:,} conversations, {found.messages:,} messages, "
        f"{found.images:,} images: about {found.hours:g} hours with embedded models on {found.workers} cores, "
        f"{found.peak_mb:,} MB of memory and {found.disk_mb:,} MB of disk"
    )


def _decided(settings: Settings, known: "Store", source: "Store", folder: str) -> "tuple[Store, Providers]":
    """A store that says what the policy keeps of `source`, and the models that screened it.

    It is `known`, or, where that has decided little and paid models would be asked about texts, one in `folder`, in
    which embedded models screen some of the documents.
    """
    import polars as pl

    from flows.commands.engine import run_flows
    from flows.stages import decide, screen
    from schemas.signals import MeasuredOn
    from tasks.providers import Providers
    from tasks.signals.registry import chosen_signals, text_signals
    from tasks.signals.steps import DECIDED_MIN
    from tasks.storage.queries.released import logged_on
    from tasks.upkeep.standing import sample_store

    providers = Providers(settings.providers)
    of_documents = chosen_signals(providers, MeasuredOn.DOCUMENTS, MeasuredOn.FAILURES, screens=False)
    asked = providers.paid([*text_signals(providers), *of_documents, "topic_names"])
    decided, conversations = known.read("decisions", ["item_id"])["item_id"], source.read("conversations")
    new = conversations.filter(~pl.col("conversation_id").is_in(decided.implode()))
    new = logged_on(new, settings.since, settings.until)
    if not asked or new.is_empty() or len(decided) >= DECIDED_MIN:
        return known, providers
    documents = new["document_id"].n_unique()
    tell(f"curate: {min(TRIED, documents):,} of {documents:,} documents are screened, to know what the policy drops")
    tried = sample_store(source, new, TRIED, folder)
    own = Settings(store=folder, policy=settings.policy, workers=settings.workers)
    run_flows(own, lambda: screen, lambda: decide)
    return tried, Providers(own.providers)


def _of(settings: Settings, known: "Store", source: "Store", folder: str) -> list[Estimate]:
    """Estimates for items of `source` without signals in `known`; what must be tried is tried in `folder`."""
    from schemas.signals import MeasuredOn
    from tasks.providers import Providers
    from tasks.runtime.budget import load_prices
    from tasks.signals.paid import (
        estimate_documents,
        estimate_images,
        estimate_texts,
        estimate_topic_names,
        image_sizes,
    )
    from tasks.signals.registry import image_signals
    from tasks.signals.steps import KINDS_OF_TEXT, OF_ORIGINALS, conversations_to_describe, shown_on
    from tasks.storage.queries.released import logged_on
    from tasks.storage.queries.texts import ConversationForm, Texts, all_texts
    from tasks.topics.cluster import members_min

    providers, prices, count = Providers(settings.providers), load_prices(settings.prices), tokens_in()
    shown = shown_on(source, settings)
    images = image_sizes(source, "images", "redacted_images")
    redacted = image_sizes(source, "redacted_images")
    originals = {each: size for each, size in image_sizes(source, "images").items() if shown is None or each in shown}
    of_images = [*image_signals(providers)]
    texts_of_kinds = {
        kind: Texts(ConversationForm.LOGGED, kind, settings.since, settings.until) for kind in KINDS_OF_TEXT
    }
    # No version of a signal is in use here: what was read in images is counted below.
    texts = {kind: all_texts(source, of_kind, {}) for kind, of_kind in texts_of_kinds.items()}
    texts[MeasuredOn.MESSAGES] |= unscreened_judge_texts(known) if settings.with_answers else {}
    decided, screeners = _decided(settings, known, source, folder)
    conversations = logged_on(conversations_to_describe(source, decided), settings.since, settings.until)
    texts[MeasuredOn.MESSAGES] |= _texts_of_images(decided, screeners, originals)
    documents = conversations["document_id"].n_unique()
    topics = known.read("topics", ["topic"])["topic"].n_unique() or documents // members_min(documents, settings.topics)
    return [
        *estimate_images(known, originals, providers, prices, count, of_images),
        *estimate_images(
            known, redacted, providers, prices, count, [name for name in of_images if name not in OF_ORIGINALS]
        ),
        *estimate_texts(known, texts, providers, prices, count),
        *estimate_documents(known, conversations, images, providers, prices, count),
        *estimate_topic_names(topics, providers, prices, count),
    ]


def _texts_of_images(seen: "Store", providers: "Providers", images: Collection[str]) -> dict[str, str]:
    """Text id -> text of these images; of those that are not in `seen`, as many texts as there on average."""
    from tasks.signals.steps import signal_versions
    from tasks.storage.queries.texts import texts_read_in_images

    read = texts_read_in_images(seen, signal_versions(providers))
    of_images = read.filter(read["image_id"].is_in(list(images)))
    known = set(seen.read("images", ["image_id"])["image_id"])
    anywhere = read.unique("text_id").sort("text_id")["text"]
    unseen = sum(each not in known for each in images)
    more = round(len(anywhere) * unseen / max(1, len(known)))
    texts = dict(of_images.select("text_id", "text").iter_rows())
    return texts | {f"unseen {number}": anywhere[number % len(anywhere)] for number in range(more)}


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
