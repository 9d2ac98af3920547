"""The Prefect task of ratings: leaderboards of anonymous battles, per slice and under style control."""

from dataclasses import replace
from pathlib import Path

import polars as pl

from schemas.benches.bench import BenchAgreement
from schemas.policy import VoteRules
from schemas.rating import VoteStatistics
from schemas.run import StageReport
from schemas.settings import Settings
from schemas.tables import TABLES as STORED
from tasks.leaderboard.agreement import bench_agreement
from tasks.leaderboard.battle_files import read_battles, with_prompts
from tasks.leaderboard.leaderboard import CATEGORY
from tasks.leaderboard.rating_tables import (
    ALL_SLICES,
    FRAGILITY,
    PAIR_CARDS,
    PLAN,
    TABLES,
    VOTE_STATISTICS,
    RatingTables,
    method_of,
)
from tasks.leaderboard.suspects.prompts import wording
from tasks.leaderboard.votes import votes
from tasks.runtime.steps import step
from tasks.storage.queries.conversation_features import (
    CATEGORIES,
    TAXONOMY,
    answers_of,
    conversation_features,
    english_name,
    marks,
    with_labels,
)
from tasks.storage.queries.released import battles_as_released, conversations_as_released, decided_policy
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store, frame_of

_FEATURES = {"assistant_tokens": "tokens", **{name: name for name in ("headers", "list_items", "bold", "entities")}}
"""Column of `conversation_features` -> style covariate."""

_STORED = sorted(TABLES.keys() - {"style_control", PAIR_CARDS, VOTE_STATISTICS, PLAN})
_COUNTS = ("battles", "boards", "outlier_judges", "suspects")


@step
def rate_models(settings: Settings, versions: Versions, release: Path | None = None) -> StageReport:
    """Write `ratings`, the other rating tables and `bench_agreement`.

    With the folder of a release, the boards are those of its battle table, as `curate rate RELEASE` gives them;
    otherwise those of all kept battles.
    """
    store = Store.open(settings.store)
    if release is None:
        every = rated_battles(store, versions, named=True)
    else:
        every = with_prompts(read_battles(release / "battle", True, True), release)
    if every.is_empty():
        for name in (*_STORED, VOTE_STATISTICS, "bench_agreement"):
            store.replace(name, frame_of(STORED[name].row, []))
        return StageReport(stage="rate", counts=dict.fromkeys(_COUNTS, 0))
    policy = decided_policy(store)
    whole = RatingTables(
        every.filter(~pl.col("named")).drop("named"),
        method_of(settings),
        reference=settings.anchor_model,
        exclude_outliers=settings.exclude_outlier_judges,
        facts=policy.models if policy else {},
        rules=policy.votes if policy else VoteRules(),
    )
    tables = replace(whole, slices=(ALL_SLICES,))
    store.replace(VOTE_STATISTICS, frame_of(VoteStatistics, replace(whole, battles=every).rows(VOTE_STATISTICS)))
    for name in _STORED:
        rows = (tables if name in _BY_SLICE else whole).rows(name)
        rows = [*rows, *tables.styled[0]] if name == "ratings" else rows
        store.replace(name, frame_of(STORED[name].row, rows))
    on_topics = _bench_agreement(store, tables.rated, settings.seed)
    store.replace("bench_agreement", frame_of(BenchAgreement, on_topics))
    boards = len({row.slice for row in tables.ratings}) + bool(tables.styled[0])
    counted = (tables.battles.height, boards, len(whole.outliers), len(whole.suspects))
    return StageReport(stage="rate", counts=dict(zip(_COUNTS, counted, strict=True)))


def _bench_agreement(store: Store, rated: pl.DataFrame, seed: int) -> list[BenchAgreement]:
    """How well models are ranked by battles on the benchmark's topics."""
    asked = conversations_as_released(store).select("conversation_id", "document_id")
    topics = asked.join(store.read("topics", ["document_id", "topic"]), on="document_id").select(
        "conversation_id", "topic"
    )
    left = store.read("battles", ["battle_id", "conversation_a"])
    known = rated.select("question_id").join(
        left.join(topics, left_on="conversation_a", right_on="conversation_id"),
        left_on="question_id",
        right_on="battle_id",
        how="left",
        maintain_order="left",
    )
    seats = dict(store.read("bench", ["topic"]).group_by("topic").len().sort("topic").iter_rows())
    return bench_agreement(votes(rated), known["topic"].fill_null(-1).cast(pl.Int64).to_numpy(), seats, seed)


def rated_battles(store: Store, versions: Versions, named: bool = False) -> pl.DataFrame:
    """Kept anonymous battles, earliest first, with the columns that slices and style control need.

    With `named`, battles with visible names too, and a column that says which.
    """
    decisions = store.read("decisions", ["item_kind", "item_id", "keep", "preset_dataset"])
    kept = decisions.filter("keep", item_kind="battle").select(battle_id="item_id")
    battles = battles_as_released(store).join(kept, on="battle_id", maintain_order="left")
    battles = battles.with_columns(named=~pl.col("anonymous")) if named else battles.filter("anonymous")
    presets = decisions.filter(item_kind="conversation").select(
        conversation_id="item_id", is_preset=pl.col("preset_dataset").is_not_null()
    )
    sides = conversations_as_released(store).filter(
        pl.col("conversation_id").is_in(pl.concat([battles["conversation_a"], battles["conversation_b"]]).implode())
    )
    known = conversation_features(store, sides, versions)
    turns = pl.col("turns")
    openings = sides.select("conversation_id", prompt=turns.list.first().struct.field("content"))
    prompt = known.select(
        "conversation_id",
        "language",
        "context_tokens",
        *(pl.col(name).alias(CATEGORY + name) for name in (*CATEGORIES, *_MORE)),
    ).join(presets, on="conversation_id", how="left")
    prompt = prompt.join(openings, on="conversation_id", how="left")
    prompt = prompt.join(with_labels(store, sides, versions).select("conversation_id", *TAXONOMY), on="conversation_id")
    joined = battles.join(prompt, left_on="conversation_a", right_on="conversation_id", maintain_order="left")
    known = known.join(sides.select("conversation_id", said=answers_of(turns)), on="conversation_id", how="left")
    for side in ("a", "b"):
        answers = known.select(
            pl.col("conversation_id").alias(f"conversation_{side}"),
            *(pl.col(name).alias(f"{covariate}_{side}") for name, covariate in _FEATURES.items()),
            *(pl.col(name).alias(f"{name}_{side}") for name in ("refusal", "said")),
        )
        joined = joined.join(answers, on=f"conversation_{side}", maintain_order="left")
    words = wording(joined["prompt"], joined["vote_reason"])
    said = pl.concat_str("said_a", "said_b", separator="\n", ignore_nulls=True)
    joined = joined.with_columns(**marks([pl.col("model_a"), pl.col("model_b")], said))
    return joined.drop("prompt", "vote_reason", "said_a", "said_b").with_columns(
        *words,
        question_id="battle_id",
        language=_LANGUAGE,
        refusal=pl.col("refusal_a") | pl.col("refusal_b"),
        rounds=pl.col("turns_a").cast(pl.Int64),
    )


_MORE = ("code", "multi_turn")
_BY_SLICE = ("ratings", "vote_shares", "style_coefficients", "rank_changes", FRAGILITY)
_LANGUAGE = pl.col("language").map_elements(english_name, return_dtype=pl.String).replace("unknown", None)
