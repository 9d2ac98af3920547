"""The Prefect task of ratings: leaderboards of anonymous battles, per slice and under style control."""

from pathlib import Path

import polars as pl

from schemas.benches.bench import BenchAgreement
from schemas.policy import VoteRules
from schemas.run import StageReport
from schemas.settings import Settings
from schemas.tables import TABLES
from tasks.leaderboard.agreement import bench_agreement
from tasks.leaderboard.battle_files import read_battles, with_prompts, wording
from tasks.leaderboard.leaderboard import CATEGORY
from tasks.leaderboard.rating_tables import STORED, RatingTables, StoredTables, method_of
from tasks.leaderboard.votes import votes
from tasks.runtime.steps import step
from tasks.storage.parquet import compact
from tasks.storage.queries.conversation_features import (
    CATEGORIES,
    PROMPT_KINDS,
    TAXONOMY,
    VOTE_MARKS,
    answers_of,
    conversation_features,
    english_name,
    marks,
)
from tasks.storage.queries.released import decided_policy, released_names, require_redactions
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store, frame_of

_AT_ONCE = 4_096
"""Conversations whose texts are in memory at a time."""
_FEATURES = {"assistant_tokens": "tokens", **{name: name for name in ("headers", "list_items", "bold", "entities")}}
"""Column of `conversation_features` -> style covariate."""

_COUNTS = ("battles", "boards", "outlier_judges", "suspects")


@step
def rate_models(settings: Settings, versions: Versions, release: Path | None = None) -> StageReport:
    """Write `ratings`, the other rating tables and `bench_agreement`.

    With the folder of a release, the boards are those of its battle table, as `curate rate RELEASE` gives them;
    otherwise those of all kept battles. Battles with visible model names count for no board, only for what is told of
    all votes (`StoredTables`).
    """
    store = Store.open(settings.store)
    every = pl.DataFrame()
    if release is None:
        every = rated_battles(store, versions, named=True)
    elif (release / "battle").is_dir():  # a benchmark alone has none
        every = read_battles(release / "battle", True, True)
    if every.is_empty():
        for name in (*STORED, "bench_agreement"):
            store.replace(name, frame_of(TABLES[name].row, []))
        return StageReport(stage="rate", counts=dict.fromkeys(_COUNTS, 0))
    every = every if release is None else with_prompts(every, release)
    policy = decided_policy(store)
    whole = RatingTables(
        every.filter(~pl.col("named")).drop("named"),
        method_of(settings),
        reference=settings.anchor_model,
        exclude_outliers=settings.exclude_outlier_judges,
        facts=policy.models if policy else {},
        rules=policy.votes if policy else VoteRules(),
    )
    kept = StoredTables(whole, every)
    for name in STORED:
        store.replace(name, frame_of(TABLES[name].row, kept.rows(name)))
    tables = kept.by_slice
    on_topics = _bench_agreement(store, tables.rated, settings.seed)
    store.replace("bench_agreement", frame_of(BenchAgreement, on_topics))
    boards = len({row.slice for row in tables.ratings}) + bool(tables.styled[0])
    counted = (tables.battles.height, boards, len(whole.outliers), len(whole.suspects))
    return StageReport(stage="rate", counts=dict(zip(_COUNTS, counted, strict=True)))


_TOPICS = """
    -- a row is one rated battle, and the topic of its prompt as it is released
    SELECT battle_id AS question_id, topics.topic
    FROM battles
    SEMI JOIN rated ON battle_id = question_id
    JOIN released ON conversation_a = released.conversation_id
    JOIN topics ON topics.document_id = released.document_id
"""
_KEPT_BATTLES = """
    -- a row is one kept battle, and whether the image of its prompt is one of a public set
    SELECT
        battle_id, conversation_a, conversation_b, model_a, model_b, winner, anonymous, turns_a::BIGINT AS rounds,
        tstamp, judge, vote_reason, coalesce(is_preset, false) AS is_preset
    FROM battles
    SEMI JOIN (SELECT item_id AS battle_id FROM decisions WHERE item_kind = 'battle' AND keep) AS decided
        USING (battle_id)
    LEFT JOIN (
        SELECT item_id AS conversation_a, true AS is_preset
        FROM decisions
        WHERE item_kind = 'conversation' AND preset_dataset IS NOT NULL
    ) AS presets USING (conversation_a)
"""
_MESSAGES = """
    -- a row is one conversation of a side, as it is released, and its messages
    SELECT conversation_id, turns FROM released SEMI JOIN wanted USING (conversation_id)
"""


def _bench_agreement(store: Store, rated: pl.DataFrame, seed: int) -> list[BenchAgreement]:
    """How well models are ranked by battles on the benchmark's topics."""
    question_ids = rated.select("question_id")
    topics = pl.concat(store.batches(_TOPICS, rated=question_ids))
    topic = question_ids.join(topics, on="question_id", how="left", maintain_order="left")["topic"]
    # A row is one topic, and how many prompts of the benchmark it has.
    seats = dict(store.read("bench", ["topic"]).group_by("topic").len().sort("topic").iter_rows())
    return bench_agreement(votes(rated), topic.fill_null(-1).cast(pl.Int64).to_numpy(), seats, seed)


def rated_battles(store: Store, versions: Versions, named: bool = False) -> pl.DataFrame:
    """Kept anonymous battles, earliest first, with the columns that slices and style control need.

    With `named`, battles with visible names too, and a column that says which.
    """
    battles = _kept_battles(store, named).with_row_index("vote")
    sides = _known_sides(store, battles, versions)
    prompt = sides.filter("left").select(
        *("vote", "language", "context_tokens", *TAXONOMY, "prompt_words", "asks_identity"),
        *(pl.col(name).alias(CATEGORY + name) for name in (*CATEGORIES, *_MORE)),
    )
    joined = battles.join(prompt, on="vote", maintain_order="left")
    for side in ("a", "b"):
        answers = sides.filter(left=side == "a").select(
            "vote",
            *(pl.col(name).alias(f"{covariate}_{side}") for name, covariate in _FEATURES.items()),
            *(pl.col(name).alias(f"{name}_{side}") for name in _EITHER),
        )
        joined = joined.join(answers, on="vote", maintain_order="left")
    either = {name: pl.col(f"{name}_a") | pl.col(f"{name}_b") for name in _EITHER}
    return joined.drop("vote").with_columns(**either, language=_LANGUAGE)


def _kept_battles(store: Store, named: bool) -> pl.DataFrame:
    """Kept battles, with hashes of the words of their voters' reasons; texts are read some at a time."""
    require_redactions(store)
    frames = list[pl.DataFrame]()
    for battles in store.batches(_KEPT_BATTLES):
        frames.append(compact(battles.hstack(wording(None, battles["vote_reason"])).drop("vote_reason")))
    in_order = pl.concat(frames).sort("tstamp", "battle_id")
    kept = released_names(store, in_order).with_columns(question_id="battle_id")
    kept = kept.with_columns(named=~pl.col("anonymous")) if named else kept.filter("anonymous")
    return kept.drop("anonymous")


def _known_sides(store: Store, battles: pl.DataFrame, versions: Versions) -> pl.DataFrame:
    """Features of the sides of battles whose conversation is there, with `vote`, `left` and what its texts tell."""
    sides = pl.concat(
        battles.select("vote", "rounds", *_MODELS, left=pl.lit(side == "a"), conversation_id=f"conversation_{side}")
        for side in ("a", "b")
    )
    facts = conversation_features(store, sides["conversation_id"], versions, _FACTS, sides["rounds"])
    opening = pl.when("left").then(pl.col("turns").list.first().struct.field("content"))
    marks_of_answers = marks([pl.col(name) for name in _MODELS], answers_of(pl.col("turns")))
    sides_with_words = list[pl.DataFrame]()
    for conversations in store.batches(_MESSAGES, _AT_ONCE, wanted=sides.select("conversation_id").unique()):
        # A row is one side of one battle: a conversation may be a side of several.
        of_sides = conversations.join(sides, on="conversation_id")
        of_sides = of_sides.with_columns(pl.col("turns").list.head(2 * pl.col("rounds")))
        words = wording(of_sides.select(opening).to_series(), None)
        of_sides = of_sides.select("vote", "left", "conversation_id", **marks_of_answers).hstack(words)
        sides_with_words.append(compact(of_sides))
    return pl.concat(sides_with_words).join(facts, on="conversation_id")


_MORE = ("code", "multi_turn", *PROMPT_KINDS)
_FACTS = ("language", "context_tokens", *TAXONOMY, *CATEGORIES, *_MORE, "refusal", *_FEATURES)
"""Columns of `conversation_features` that slices and style control need."""
_LANGUAGE = pl.col("language").map_elements(english_name, return_dtype=pl.String).replace("unknown", None)
_MODELS = ("model_a", "model_b")
_EITHER = ("refusal", *VOTE_MARKS)
"""Facts of a side that hold for a vote when they hold for either side."""
