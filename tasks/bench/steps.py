"""The Prefect tasks of the drawn benchmark: `topics` -> a public split, drawn over topics, a hidden one, failures."""

import math
from functools import partial

import numpy as np
import polars as pl

from schemas.benches.bench import BenchDraw, BenchFilter, BenchItem, BenchMeasure, HiddenChange, HiddenItem
from schemas.benches.written import AUTHOR
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.bench.contamination.alike import ALIKE_OVERLAP, alike_in_store, asked_in_store
from tasks.bench.contamination.guard import asked_by_users, epoch_of, reserved
from tasks.bench.contamination.known_index import update_index, update_known_images
from tasks.bench.contamination.known_matches import find_matches
from tasks.bench.contamination.known_sources import known_benchmarks
from tasks.bench.draw import by_topic, draw, hidden_changes, hidden_items, proportional_quotas, quotas, seats_again
from tasks.bench.earlier_draw import ASKED_ID, DRAWS, draw_now, earlier_draw
from tasks.bench.failures import (
    UNDECIDED,
    described_prompts,
    failure_marks,
    failure_pool,
    failure_rates,
    failure_set,
    kept_battles,
    said_by_tagger,
    typed,
    types_of_reviewers,
)
from tasks.bench.pool import capped, draw_weights, eligible, first_of_alike, measures
from tasks.providers import Providers
from tasks.runtime.arrays import RowNumbers, Vectors
from tasks.runtime.steps import step
from tasks.storage.content_id import number_of
from tasks.storage.parquet import compact
from tasks.storage.queries.documents import embedded_documents
from tasks.storage.queries.released import days, require_redactions
from tasks.storage.queries.signals import Versions, signal_facts, versions_in_use
from tasks.storage.tables import Store, frame_of

BENCH_SIZE = 500
"""VisionArena-Bench has 500 prompts."""
_COMPACT = {
    "prompt_id": number_of(pl.col("prompt_id")),
    "image": number_of(pl.col("image")).fill_null(0),
    "model": pl.col("model").cast(pl.Categorical),
    "user_id": pl.col("user_id").cast(pl.Categorical),
    "language": pl.col("language").cast(pl.Categorical),
}
"""Columns that take less memory so: ids as numbers (no image is 0), and names that repeat."""
NAMED_MAX = 5
"""Pictures and files of known benchmarks that a run names because they cannot be read; others are counted."""
BENCH_ONE_IN = 5
"""By default the benchmark has at most one in five eligible prompts."""
REPEAT_OVERLAP = 0.8
"""A prompt that holds this share of an earlier one's runs of four words repeats it."""


@step
def index_benchmarks(settings: Settings, providers: Providers, versions: Versions) -> StageReport:
    """Benchmarks of others -> `known_sources`, `known_pictures`, `known_questions`; only what changed is measured.

    Raises BadInput for a benchmark that cannot be read.
    """
    store, benchmarks = Store.open(settings.store), known_benchmarks(settings.known_benchmarks)
    counts, unreadable = update_index(store, benchmarks, providers, versions, settings.workers)
    notes = [f"cannot be read, so it is in no index of known benchmarks: {place}" for place in unreadable[:NAMED_MAX]]
    if others := counts["unreadable"] - len(notes):
        notes.append(f"pictures and files that cannot be read, so they are in no index of known benchmarks: {others:,}")
    return StageReport(stage="index_benchmarks", counts=counts, notes=notes)


@step
def find_known(settings: Settings, versions: Versions) -> StageReport:
    """Index and signals of images -> `known_images`; with what users asked -> `known_matches`."""
    store = Store.open(settings.store)
    counts = update_known_images(store, versions)
    matches = find_matches(store)
    store.replace("known_matches", matches)
    counts["conversations"] = matches["conversation_id"].n_unique()
    return StageReport(stage="known_benchmarks", counts=counts)


@step
def draw_bench(settings: Settings, versions: Versions) -> StageReport:
    """Write `bench`, `bench_draws`, `bench_funnel`, `bench_measures`, `hidden` and `hidden_changes`.

    The result depends only on tables and settings, and on an earlier draw only where the policy alone has changed
    since. Raises BadInput when `quality_weight` is set and the criteria were not measured.
    """
    store, bench = Store.open(settings.store), settings.bench
    kept, now = _kept(store, versions), draw_now(store, settings)
    earlier = None if settings.redraw else earlier_draw(store, now)
    if earlier:
        kept = earlier.first(kept)  # so that no other prompt takes their place
    of_days = days(store)
    epoch = epoch_of(bench, of_days[-1]) if of_days else 0
    lately = reserved(asked_by_users(store, bench), bench, epoch - 1)
    secret = lately.filter(pl.col("first_month") > epoch - bench.hidden_months)
    pool = eligible(kept.filter(pl.col("model") != AUTHOR), bench)
    if not bench.repeats:
        documents = asked_in_store(store, pool.prompts)
        repeats = alike_in_store(store, versions, documents, documents, REPEAT_OVERLAP)
        pool.keep("no_repeat", first_of_alike(pool.prompts, repeats))
    hideable = pool.prompts.with_columns(ASKED_ID).join(
        lately, left_on="asked_id", right_on="document_id", how="semi", maintain_order="left"
    )
    asked_again = alike_in_store(
        store, versions, asked_in_store(store, hideable), asked_in_store(store, kept), ALIKE_OVERLAP
    )
    hideable = hideable.filter(~pl.col("document_id").is_in(asked_again["other_id"].implode()))
    hidden = hidden_items(kept.select(ASKED_ID), secret, hideable, bench, epoch)
    pool.keep("not_reserved", pool.prompts.filter(~ASKED_ID.is_in(secret["document_id"].implode())))
    pool.prompts = pool.prompts.with_columns(ASKED_ID)
    stay = earlier.prompts["asked_id"] if earlier else pl.Series(dtype=pl.String)
    if bench.per_user_max is not None:
        pool.keep("per_user_max", capped(pool.prompts, bench.per_user_max, settings.seed, stay))
    before = pool.prompts
    size = min(BENCH_SIZE, before.height // BENCH_ONE_IN) if bench.size is None else bench.size
    seats = proportional_quotas if bench.seats == "proportional" else quotas
    weights = draw_weights(store, before, versions, bench.quality_weight)
    if earlier:
        size, seats = earlier.about.prompts, partial(seats_again, before=earlier.seats(before))
        weights |= dict.fromkeys(stay, math.inf)
    drawn = draw(by_topic(before, "asked_id"), size, settings.seed, weights, seats).values()
    pool.keep("drawn", before.filter(pl.col("asked_id").is_in([name for of_topic in drawn for name in of_topic])))
    items = pool.prompts.select("conversation_id", "document_id", "topic")
    changes = hidden_changes(hideable, lately, bench, epoch)
    measured = _measured(store, before, pool.prompts, settings, versions)  # all is known before a table is written
    store.replace("bench", frame_of(BenchItem, (BenchItem(**row) for row in items.iter_rows(named=True))))
    about = earlier.about if earlier else now.model_copy(update={"prompts": items.height})
    store.replace(DRAWS, frame_of(BenchDraw, [about]))
    store.replace("bench_funnel", frame_of(BenchFilter, pool.funnel))
    store.replace("bench_measures", frame_of(BenchMeasure, measured))
    store.replace("hidden", frame_of(HiddenItem, hidden))
    store.replace("hidden_changes", frame_of(HiddenChange, changes))
    counts = {step.filter: step.prompts for step in pool.funnel}
    short = {"asked": size, "short": size - items.height} if size > items.height else {"asked": size}
    split = {"reserved": len(hidden), "hidden": sum(item.drawn for item in hidden)}
    counts |= short | {"topics": items["topic"].n_unique()} | split
    return StageReport(stage="bench", counts=counts, notes=_notes(about, stay, pool.prompts) if earlier else [])


def _notes(about: BenchDraw, stay: pl.Series, drawn: pl.DataFrame) -> list[str]:
    new = drawn.filter(~pl.col("asked_id").is_in(stay.implode())).height
    note = f"the benchmark stays as drawn under policy {about.policy_hash}: {new:,} of {drawn.height:,} prompts are new"
    return [f"{note}, in place of those that are not kept; --redraw draws it anew"]


@step
def find_failures(settings: Settings, versions: Versions) -> StageReport:
    """Write `failures`, prompts that several people voted both bad, with types; votes there and rates, by model."""
    store, bench = Store.open(settings.store), settings.bench
    battles = kept_battles(store)
    prompts = described_prompts(store, battles["document_id"], versions)
    pool = failure_pool(battles, bench.failure_judges_min)
    tagged_failures = said_by_tagger(
        store, pool.join(prompts, on="document_id", how="left", maintain_order="left"), versions
    )
    failures = failure_set(typed(tagged_failures, types_of_reviewers(store)), bench.failure_size, settings.seed)
    store.replace("failures", failures)
    store.replace("failure_marks", failure_marks(battles, failures))
    store.replace("failure_rates", failure_rates(battles, prompts))
    by_type = failures["failure_type"].fill_null(UNDECIDED).value_counts(sort=True).rows()
    counts = {"pool": failures.height, "drawn": int(failures["drawn"].sum())}
    return StageReport(stage="bench_failures", counts=counts | dict(by_type))


_KEPT = """
    -- a row is one kept conversation, earliest first. Its image is the first one that was logged ('' for none);
    -- asked_id is that of its document as it was logged, where a redacted one takes its place
    SELECT
        kept.conversation_id, kept.document_id, kept.prompt_id, kept.num_turns, kept.model, kept.tstamp, kept.user_id,
        kept.preset_dataset, len(kept.image_ids)::UINTEGER AS images,
        coalesce(logged.image_ids[1], '') AS image,
        CASE WHEN named_redactions.conversation_id IS NOT NULL THEN logged.document_id END AS asked_id,
        topics.topic, language
    FROM kept
    JOIN conversations AS logged USING (conversation_id)
    LEFT JOIN named_redactions USING (conversation_id)
    LEFT JOIN topics ON topics.document_id = kept.document_id
    LEFT JOIN prompt_languages ON prompt_languages.prompt_id = kept.prompt_id
    ORDER BY kept.tstamp, kept.conversation_id
"""
_IMAGES = """
    -- a row is one of the wanted conversations, in their order, with its prompt and images as they are released
    SELECT prompt_id, image_ids FROM kept JOIN wanted USING (conversation_id) ORDER BY number
"""


def _kept(store: Store, versions: Versions) -> pl.DataFrame:
    """Kept conversations without texts, earliest first, with language and topic.

    image, the first one, and asked_id, null where it is document_id, are those before redaction.
    """
    require_redactions(store)
    rows = store.batches(_KEPT, versions=versions_in_use(versions))
    return pl.concat(compact(conversations).with_columns(**_COMPACT) for conversations in rows)


def _measured(
    store: Store, pool: pl.DataFrame, drawn: pl.DataFrame, settings: Settings, versions: Versions
) -> list[BenchMeasure]:
    beside = settings.topics.model_copy(update={"document": "concatenated"})
    embedded = signal_facts(store, "text_embedding", versions.get("text_embedding", ""), {})
    ordered = pool.select("document_id", "prompt_id", "topic", "conversation_id").sort("document_id")
    ordered = ordered.join(embedded, left_on="prompt_id", right_on="content_id", how="semi", maintain_order="left")
    places = np.flatnonzero(ordered["document_id"].is_in(drawn["document_id"].implode()).to_numpy())

    def vectors_of(rows: RowNumbers) -> Vectors:
        conversations = ordered[rows].select("conversation_id").with_row_index("number")
        documents = pl.concat(store.batches(_IMAGES, wanted=conversations))
        return embedded_documents(store, documents, versions, beside, joint=False)[1]

    return measures(ordered["topic"].cast(pl.Int64).to_numpy(), vectors_of, places, settings.seed)
