"""The Prefect task of ratings: leaderboards of the kept anonymous battles, per slice and under style control."""

import polars as pl
from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.bench import BenchAgreement
from schemas.run import StageReport
from schemas.settings import Settings
from schemas.tables import TABLES as STORED
from tasks.leaderboard.agreement import bench_agreement
from tasks.leaderboard.leaderboard import CATEGORY
from tasks.leaderboard.rating_tables import ALL_SLICES, TABLES, RatingTables, method_of
from tasks.leaderboard.votes import votes
from tasks.runtime.timing import timed
from tasks.storage.queries.conversation_features import CATEGORIES, conversation_features
from tasks.storage.queries.released import battles_as_released, conversations_as_released
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store, frame_of

_FEATURES = {"assistant_tokens": "tokens", **{name: name for name in ("headers", "list_items", "bold", "entities")}}
"""Column of `conversation_features` -> style covariate."""


@task(cache_policy=NO_CACHE)
@timed
def rate_models(settings: Settings, versions: Versions) -> StageReport:
    """Write `ratings`, the other rating tables and `bench_agreement`."""
    store = Store.open(settings.store)
    tables = RatingTables(
        rated_battles(store, versions),
        method_of(settings),
        slices=(ALL_SLICES,),
        reference=settings.anchor_model,
        exclude_outliers=settings.exclude_outlier_judges,
        measured_only=True,
    )
    for name in TABLES.keys() - {"style_control"}:
        rows = [*tables.ratings, *tables.styled[0]] if name == "ratings" else tables.rows(name)
        store.replace(name, frame_of(STORED[name].row, rows))
    on_topics = _bench_agreement(store, tables.rated, settings.seed)
    store.replace("bench_agreement", frame_of(BenchAgreement, on_topics))
    counts = {
        "battles": tables.battles.height,
        "boards": len({row.slice for row in tables.ratings}) + bool(tables.styled[0]),
        "outlier_judges": len(tables.outliers),
    }
    return StageReport(stage="rate", counts=counts)


def _bench_agreement(store: Store, rated: pl.DataFrame, seed: int) -> list[BenchAgreement]:
    """How well models are ranked by battles on the benchmark's topics."""
    asked = conversations_as_released(store).select("conversation_id", "document_id")
    topics = asked.join(store.read("topics", ["document_id", "topic"]), on="document_id").select(
        "conversation_id", "topic"
    )
    known = rated.join(topics, left_on="conversation_a", right_on="conversation_id", how="left", maintain_order="left")
    seats = dict(store.read("bench", ["topic"]).group_by("topic").len().sort("topic").iter_rows())
    return bench_agreement(votes(rated), known["topic"].fill_null(-1).cast(pl.Int64).to_numpy(), seats, seed)


def rated_battles(store: Store, versions: Versions) -> pl.DataFrame:
    """Kept anonymous battles, earliest first, with the columns that slices and style control need."""
    decisions = store.read("decisions", ["item_kind", "item_id", "keep", "preset_dataset"])
    kept = decisions.filter("keep", item_kind="battle").select(battle_id="item_id")
    battles = battles_as_released(store).join(kept, on="battle_id", maintain_order="left").filter("anonymous")
    presets = decisions.filter(item_kind="conversation").select(
        conversation_id="item_id", is_preset=pl.col("preset_dataset").is_not_null()
    )
    sides = conversations_as_released(store).filter(
        pl.col("conversation_id").is_in(pl.concat([battles["conversation_a"], battles["conversation_b"]]).implode())
    )
    known = conversation_features(store, sides, versions)
    prompt = known.select(
        "conversation_id", "language", *(pl.col(name).alias(CATEGORY + name) for name in (*CATEGORIES, *_MORE))
    ).join(presets, on="conversation_id", how="left")
    joined = battles.join(prompt, left_on="conversation_a", right_on="conversation_id", maintain_order="left")
    for side in ("a", "b"):
        answers = known.select(
            pl.col("conversation_id").alias(f"conversation_{side}"),
            *(pl.col(name).alias(f"{covariate}_{side}") for name, covariate in _FEATURES.items()),
            pl.col("refusal").alias(f"refusal_{side}"),
        )
        joined = joined.join(answers, on=f"conversation_{side}", maintain_order="left")
    return joined.with_columns(refusal=pl.col("refusal_a") | pl.col("refusal_b"))


_MORE = ("code", "multi_turn")
