"""The Prefect skin of sample: topics of what is kept, and the benchmark drawn from them."""

import polars as pl
from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.run import StageReport
from schemas.settings import Settings
from schemas.topic import BenchItem
from tasks.lookup.facts import Versions, facts
from tasks.providers import Providers
from tasks.sample.draw import draw
from tasks.sample.kept import kept_conversations
from tasks.sample.topics import write_topics
from tasks.tables import Store, frame_of
from tasks.timing import timed

BENCH_SIZE = 500
"""VisionArena-Bench has 500 prompts."""
BENCH_SHARE = 5
"""The default benchmark takes at most one in so many eligible prompts."""


@task(cache_policy=NO_CACHE)
@timed
def find_topics(settings: Settings, providers: Providers, versions: Versions) -> StageReport:
    """Embeddings of kept documents -> `topics`."""
    return write_topics(settings, providers, versions)


@task(cache_policy=NO_CACHE)
@timed
def draw_bench(settings: Settings, versions: Versions) -> StageReport:
    """`topics` -> `bench`: single-turn prompts with a picture, of one language, no presets, uniformly over topics."""
    store = Store.open(settings.store)
    topics = store.read("topics", ["document_id", "topic"]).filter(pl.col("topic") >= 0)
    pool = (
        kept_conversations(store)
        .join(topics, on="document_id")
        .filter((pl.col("num_turns") == 1) & (pl.col("image_ids").list.len() > 0) & pl.col("preset_dataset").is_null())
    )
    if settings.bench_language:
        spoken = facts(store, "language", versions["language"], ["language"])
        pool = pool.join(spoken, left_on="prompt_id", right_on="content_id").filter(language=settings.bench_language)
    first = pool.sort("tstamp", "conversation_id").unique("document_id", keep="first", maintain_order=True)
    of_topic = {t: list(ids) for t, ids in first.group_by("topic").agg("document_id").sort("topic").iter_rows()}
    size = min(BENCH_SIZE, first.height // BENCH_SHARE) if settings.bench_size is None else settings.bench_size
    drawn = {document for chosen in draw(of_topic, size, settings.seed).values() for document in chosen}
    rows = first.filter(pl.col("document_id").is_in(list(drawn))).select("conversation_id", "document_id", "topic")
    store.replace("bench", frame_of(BenchItem, [BenchItem(**row) for row in rows.iter_rows(named=True)]))
    counts = {"pool": first.height, "topics": len(of_topic), "drawn": rows.height, "asked": size}
    return StageReport(stage="bench", counts=counts)
