"""Cost of a run at paid services before anything is sent, and whether the run may spend that.

In: settings and a store with the run's logs. Out: rows of `curate estimate`; of a night, a line for each service and
the stage `costs` of the run's record. A new kind of item that a paid service may be asked about is counted in
`estimates_of_run`, with a function of `tasks/signals/paid.py`.
"""

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import polars as pl
from prefect import tags

from flows.products import unscreened_judge_texts
from flows.running.checked_flow import PROBES
from flows.stages import decide, screen
from schemas.errors import BudgetHeld
from schemas.run import Estimate, ExpectedCost, Prices, StageReport
from schemas.settings import Settings
from schemas.signals import MeasuredOn
from schemas.tables import SIGNAL_ENTRIES
from schemas.upkeep import MonthLimit
from tasks.providers import EMBEDDED, MAKERS, Providers, token_count
from tasks.runtime.budget import covers, ledger, load_prices
from tasks.runtime.progress import tell, timed
from tasks.signals.paid import (
    estimate_documents,
    estimate_images,
    estimate_texts,
    estimate_topic_names,
    image_sizes,
)
from tasks.signals.registry import chosen_signals, image_signals, text_signals
from tasks.signals.run import missing
from tasks.signals.steps import (
    DECIDED_MIN,
    KINDS_OF_TEXT,
    OF_ORIGINALS,
    conversations_to_describe,
    shown_on,
    signal_versions,
)
from tasks.storage.lock import writing
from tasks.storage.queries.released import logged_on
from tasks.storage.queries.texts import ConversationForm, Texts, all_texts, text_ids, texts_read_in_images
from tasks.storage.records import run_records
from tasks.storage.tables import Store
from tasks.topics.cluster import members_min
from tasks.upkeep.standing import month_costs, month_limits, sample_store, waiting_questions

TRIED = 300
"""Documents that are screened to know what the policy drops, where it has decided nothing so far."""
SPEND_PART = "part"
"""Value of `over_budget` with which a run spends what it may, and leaves the rest for later runs.

Here such a run only goes on; `tasks/runtime/budget.py` ends it. A third value is treated in `_require_room`.
"""
Screen = Callable[[Settings], None]
"""Screens and decides a store of its own with embedded models."""


def asked_services(settings: Settings) -> dict[str, str]:
    """Capability -> service in the price file, of the services that a run with these settings may ask."""
    providers = Providers(settings.providers)
    chosen = {capability for capability, name in settings.providers.items() if name != EMBEDDED}
    return {capability: str(providers[capability].service) for capability in providers.paid(chosen - MAKERS)}


def within_limits(settings: Settings) -> Iterator[StageReport]:
    """Say what the rest of a run is expected to cost, a line for each service that costs something.

    Yields the stage `costs` first, so that the record of a held run has it. Then raises BudgetHeld when that is above
    what the run may spend, unless `over_budget` lets it spend that much. Nothing is said or done where all are free.
    """
    prices, services = load_prices(settings.prices), asked_services(settings)
    free = {capability for capability, service in services.items() if prices.is_free(service)}
    if free == services.keys():
        return
    # what is free is not counted
    costing = {capability: name for capability, name in settings.providers.items() if capability not in free}
    report = _expect_costs(settings.model_copy(update={"providers": costing}))
    limits = month_limits(run_records(Store.open(settings.store)), settings, datetime.now(UTC))
    if report.expected:
        ledger().announce = None  # these lines say it
    for cost in report.expected:
        tell(f"costs: {_in_words(cost, limits)}")
    yield report
    _require_room(report.expected, limits, settings)


@timed
def _expect_costs(settings: Settings) -> StageReport:
    """The stage `costs`: expected calls and US dollars by service, of services that cost something."""
    store = Store.open(settings.store)
    whole = settings.model_copy(update={"since": None, "until": None})  # what earlier runs left is caught up, too
    with tempfile.TemporaryDirectory(prefix="curate-costs-") as folder:
        rows = estimates_of_run(whole, store, store, f"{folder}/tried", screen_in_own_runs)
    spent = {row.service: row.usd + row.usd_unconfirmed for row in month_costs(run_records(store), datetime.now(UTC))}
    expected = list(_by_service(rows, waiting_questions(store), spent, batch=settings.batch))
    counts = {"services": len(expected), "calls": sum(cost.calls for cost in expected)}
    return StageReport(stage="costs", counts=counts, expected=expected)


def screen_in_own_runs(settings: Settings) -> None:
    """Screen and decide a store of its own inside a run, whose runs are shown as those of probes are."""
    with tags(PROBES), writing(settings.store):
        screen(settings)
        decide(settings)


def _by_service(
    rows: Sequence[Estimate], waiting: Mapping[str, int], spent: Mapping[str, float], *, batch: bool
) -> Iterator[ExpectedCost]:
    """The sums of a run's estimates by service, without what is free and what waits at a vendor, paid for already."""
    batched = {(row.service, row.signals) for row in rows if row.mode == "batch"} if batch else set()
    # where a signal has a row for a batch, and batches are wanted, that one; else the row of single calls
    chosen = [row for row in rows if (row.mode == "batch") == ((row.service, row.signals) in batched)]
    for service in sorted({row.service for row in chosen}):
        of_service = [row for row in chosen if row.service == service]
        calls = sum(row.calls for row in of_service)
        new_share = max(0, calls - waiting.get(service, 0)) / max(1, calls)
        cost = ExpectedCost(
            service=service,
            calls=round(new_share * calls),
            usd=_share_of([row.usd for row in of_service], new_share),
            usd_most=_share_of([row.usd_most for row in of_service], new_share),
            month_usd=spent.get(service, 0.0),
        )
        if cost.calls and cost.usd != 0:
            yield cost


def _share_of(amounts: Sequence[float | None], share: float) -> float | None:
    """A share of the sum of amounts in US dollars; None when one of them is not known."""
    return None if None in amounts else share * sum(amount or 0.0 for amount in amounts)


def _in_words(cost: ExpectedCost, limits: Sequence[MonthLimit]) -> str:
    """A line: service, calls, US dollars, and the month so far, against each limit that is about the service."""
    money = "no price known: give --prices FILE"
    if cost.usd is not None and cost.usd_most is not None:
        money = f"about ${cost.usd:,.4f}, at most ${cost.usd_most:,.4f}"
    # the month's runs, against each limit that is about this service
    against = [
        f"${limit.usd:,.2f} of ${limit.usd_max:,.2f} ({limit.setting})"
        for limit in limits
        if covers(limit.provider, cost.service)
    ]
    month = ", ".join([f"this month ${cost.month_usd:,.2f} so far", *against])
    return f"{cost.service}: {cost.calls:,} calls, {money}; {month}"


def _require_room(expected: Sequence[ExpectedCost], limits: Sequence[MonthLimit], settings: Settings) -> None:
    """Raises BudgetHeld when the expected cost is above the budget or what a limit of the month leaves."""
    lines = []
    if settings.budget_usd is not None and (usd := _sum(expected)) > settings.budget_usd:
        lines.append(f"about ${usd:,.4f}, above --budget {settings.budget_usd:g}")
    for limit in limits:
        usd = _sum(expected, limit.provider)
        if usd > max(0.0, limit.usd_left):
            place = f" at {limit.provider}" if limit.provider else ""
            room = f"of --set {limit.setting}={limit.usd_max:g} the month has ${limit.usd_left:,.4f} left"
            lines.append(f"about ${usd:,.4f}{place}, and {room}")
    if lines and settings.over_budget != SPEND_PART:
        raise BudgetHeld(
            f"held before anything is sent: the run would cost {'; '.join(lines)}. Raise what is too low, or run with "
            f"--set over_budget={SPEND_PART}: it asks for what there is money for, and later runs for the rest"
        )


def _sum(expected: Sequence[ExpectedCost], provider: str = "") -> float:
    """US dollars of the services that `provider` covers; one without a price has none."""
    return sum(cost.usd or 0.0 for cost in expected if covers(provider, cost.service))


def estimates_of_run(
    settings: Settings, store: Store, source: Store, folder: str, screen_store: Screen
) -> list[Estimate]:
    """Estimates for items of `source` without signals in `store`; see `_decided` for the rest."""
    providers, prices = Providers(settings.providers), load_prices(settings.prices)
    decided, screeners = _decided(settings, store, source, folder, screen_store)
    return [
        *_of_images(settings, store, source, providers, prices),
        *_of_texts(settings, store, source, decided, screeners),
        *_of_documents(settings, store, source, decided),
    ]


def _of_images(settings: Settings, store: Store, source: Store, providers: Providers, prices: Prices) -> list[Estimate]:
    """Estimates for the images of `source`, as they were logged and as they were redacted."""
    kinds = [*image_signals(providers)]
    if not providers.paid(kinds):
        return []
    logged, redacted = image_sizes(source, "images"), image_sizes(source, "redacted_images")
    if (ids_of_days := shown_on(source, settings)) is not None:
        logged = {image_id: size for image_id, size in logged.items() if image_id in ids_of_days}
    again = [name for name in kinds if name not in OF_ORIGINALS]
    return [
        *estimate_images(store, logged, providers, prices, token_count, kinds),
        *estimate_images(store, redacted, providers, prices, token_count, again),
    ]


def _of_texts(settings: Settings, store: Store, source: Store, decided: Store, screeners: Providers) -> list[Estimate]:
    """Estimates for the texts of `source`; those that `screeners` read in images of `decided` stand for all images."""
    providers, prices = Providers(settings.providers), load_prices(settings.prices)
    signals = text_signals(providers)
    paid = providers.paid(signals)
    if not paid:
        return []
    texts = dict[MeasuredOn, dict[str, str]]()
    for kind in KINDS_OF_TEXT:
        of_kind = Texts(ConversationForm.LOGGED, kind, settings.since, settings.until)
        paid_signals = [signals[name] for name in paid if SIGNAL_ENTRIES[name].on is kind]
        # No version of a signal is in use here: what was read in images is counted below.
        ids = text_ids(source, of_kind, {}) if paid_signals else pl.Series(dtype=pl.String)
        lacking = {content_id for signal in paid_signals for content_id in missing(store, signal, ids)}
        content_ids = pl.Series(sorted(lacking), dtype=pl.String)
        texts[kind] = all_texts(source, of_kind, {}, content_ids)
    if any(SIGNAL_ENTRIES[name].on is MeasuredOn.MESSAGES for name in paid):
        texts[MeasuredOn.MESSAGES] |= unscreened_judge_texts(store) if settings.with_answers else {}
        images = image_sizes(source, "images")
        images_of_days = images if (among := shown_on(source, settings)) is None else images.keys() & among
        texts[MeasuredOn.MESSAGES] |= _texts_of_images(decided, screeners, images_of_days)
    return estimate_texts(store, texts, providers, prices, token_count)


def _of_documents(settings: Settings, store: Store, source: Store, decided: Store) -> list[Estimate]:
    """Estimates for the prompts of `source` that the policy keeps, and for the names of their topics."""
    providers, prices = Providers(settings.providers), load_prices(settings.prices)
    kinds = chosen_signals(providers, MeasuredOn.DOCUMENTS, MeasuredOn.FAILURES, screens=False)
    if not providers.paid([*kinds, "topic_names"]):
        return []
    conversations = logged_on(conversations_to_describe(source, decided), settings.since, settings.until)
    documents = conversations["document_id"].unique()
    topics = store.read("topics", ["topic"])["topic"].n_unique()
    topics = topics or len(documents) // members_min(len(documents), settings.topics)
    images = image_sizes(source, "images", "redacted_images")
    return [
        *estimate_documents(store, source, documents, images, providers, prices, token_count),
        *estimate_topic_names(topics, providers, prices, token_count),
    ]


def _decided(
    settings: Settings, store: Store, source: Store, folder: str, screen_store: Screen
) -> tuple[Store, Providers]:
    """A store that says what the policy keeps of `source`, and the models that screened it.

    It is `store`, or, where that has fewer than `DECIDED_MIN` decisions and paid models would be asked about texts, one
    in `folder`, in which `screen_store` screens some of the documents with embedded models.
    """
    providers = Providers(settings.providers)
    of_documents = chosen_signals(providers, MeasuredOn.DOCUMENTS, MeasuredOn.FAILURES, screens=False)
    paid = providers.paid([*text_signals(providers), *of_documents, "topic_names"])
    decided_ids = store.read("decisions", ["item_id"])["item_id"]
    if not paid or len(decided_ids) >= DECIDED_MIN:
        return store, providers
    conversations = source.read("conversations")
    new = conversations.filter(~pl.col("conversation_id").is_in(decided_ids.implode()))
    new = logged_on(new, settings.since, settings.until)
    if new.is_empty():
        return store, providers
    documents = new["document_id"].n_unique()
    tell(f"{min(TRIED, documents):,} of {documents:,} documents are screened, to know what the policy drops")
    tried = sample_store(source, new, TRIED, folder)
    embedded = Settings(store=folder, policy=settings.policy, workers=settings.workers)
    screen_store(embedded)
    return tried, Providers(embedded.providers)


def _texts_of_images(seen: Store, providers: Providers, image_ids: Collection[str]) -> dict[str, str]:
    """Text id -> text of these images; of those that are not in `seen`, as many texts as there on average."""
    texts_of_seen = texts_read_in_images(seen, signal_versions(providers))
    of_images = texts_of_seen.filter(texts_of_seen["image_id"].is_in(list(image_ids)))
    seen_ids = set(seen.read("images", ["image_id"])["image_id"])
    distinct = texts_of_seen.unique("text_id").sort("text_id")["text"]
    unseen_count = sum(image_id not in seen_ids for image_id in image_ids)
    more_count = round(len(distinct) * unseen_count / max(1, len(seen_ids)))
    texts = dict(of_images.select("text_id", "text").iter_rows())
    return texts | {f"unseen {number}": distinct[number % len(distinct)] for number in range(more_count)}
