"""The Prefect task of ratings: leaderboards of anonymous battles, per slice and under style control."""

from itertools import chain
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
from tasks.storage.content_id import Distinct, among
from tasks.storage.parquet import compact
from tasks.storage.queries.conversation_features import (
    CATEGORIES,
    MARKS,
    PARTS,
    TAXONOMY,
    answers_of,
    english_name,
    features_of_parts,
    marks,
    with_values,
)
from tasks.storage.queries.released import decided_policy, released_names, released_slices
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store, frame_of

_FEATURES = {"assistant_tokens": "tokens", **{name: name for name in ("headers", "list_items", "bold", "entities")}}
"""Column of `conversation_features` -> style covariate."""

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


def _bench_agreement(store: Store, rated: pl.DataFrame, seed: int) -> list[BenchAgreement]:
    """How well models are ranked by battles on the benchmark's topics."""
    votes_on = _rows(store, "battles", ["battle_id", "conversation_a"], rated["question_id"])
    asked = _rows(store, "conversations", ["conversation_id", "document_id"], votes_on["conversation_a"])
    topics = asked.join(_rows(store, "topics", ["document_id", "topic"], asked["document_id"]), on="document_id")
    known = rated.select("question_id").join(
        votes_on.join(topics, left_on="conversation_a", right_on="conversation_id"),
        left_on="question_id",
        right_on="battle_id",
        how="left",
        maintain_order="left",
    )
    seats = dict(store.read("bench", ["topic"]).group_by("topic").len().sort("topic").iter_rows())
    return bench_agreement(votes(rated), known["topic"].fill_null(-1).cast(pl.Int64).to_numpy(), seats, seed)


def _rows(store: Store, table: str, columns: list[str], ids: pl.Series) -> pl.DataFrame:
    """Rows of a table, conversations in released form, whose first column is one of `ids`."""
    slices = released_slices(store, columns) if table == "conversations" else store.read_slices(table, columns)
    return pl.concat([store.empty(table, columns), *among(slices, pl.col(columns[0]), ids)])


def rated_battles(store: Store, versions: Versions, named: bool = False) -> pl.DataFrame:
    """Kept anonymous battles, earliest first, with the columns that slices and style control need.

    With `named`, battles with visible names too, and a column that says which.
    """
    battles = _kept_battles(store, named).with_row_index("vote")
    known = _known_sides(store, battles, versions)
    prompt = with_values(store, known.filter("left"), "document_id", "taxonomy", TAXONOMY, versions).select(
        *("vote", "language", "context_tokens", *TAXONOMY, "prompt_words", "asks_identity"),
        *(pl.col(name).alias(CATEGORY + name) for name in (*CATEGORIES, *_MORE)),
    )
    joined = battles.join(prompt, on="vote", maintain_order="left")
    for side in ("a", "b"):
        answers = known.filter(left=side == "a").select(
            "vote",
            *(pl.col(name).alias(f"{covariate}_{side}") for name, covariate in _FEATURES.items()),
            *(pl.col(name).alias(f"{name}_{side}") for name in _EITHER),
        )
        joined = joined.join(answers, on="vote", maintain_order="left")
    either = {name: pl.col(f"{name}_a") | pl.col(f"{name}_b") for name in _EITHER}
    return joined.drop("vote").with_columns(**either, language=_LANGUAGE)


def _kept_battles(store: Store, named: bool) -> pl.DataFrame:
    """Kept battles, with hashes of the words of their voters' reasons; texts are read some at a time."""
    kept, presets = Distinct(), Distinct()
    for rows in store.read_slices("decisions", ["item_kind", "item_id", "keep", "preset_dataset"]):
        kept.add(rows.filter("keep", item_kind="battle")["item_id"])
        presets.add(rows.filter(pl.col("preset_dataset").is_not_null(), item_kind="conversation")["item_id"])
    slices = chain([store.empty("battles", _OF_BATTLES)], store.read_slices("battles", _OF_BATTLES))
    found = (rows.filter(kept.hold(pl.col("battle_id"))) for rows in slices)
    told = (compact(rows.hstack(wording(None, rows["vote_reason"])).drop("vote_reason")) for rows in found)
    battles = released_names(store, pl.concat(told)).with_columns(
        question_id="battle_id",
        is_preset=presets.hold(pl.col("conversation_a")),
        rounds=pl.col("turns_a").cast(pl.Int64),
    )
    battles = battles.with_columns(named=~pl.col("anonymous")) if named else battles.filter("anonymous")
    return battles.drop("anonymous", "turns_a")


def _known_sides(store: Store, battles: pl.DataFrame, versions: Versions) -> pl.DataFrame:
    """Features of the sides of battles whose conversation is there, with `vote`, `left` and what its texts tell."""
    sides = pl.concat(
        battles.select("vote", *_MODELS, left=pl.lit(side == "a"), conversation_id=f"conversation_{side}")
        for side in ("a", "b")
    ).with_row_index("side")
    columns = ["conversation_id", *PARTS]
    read = among(released_slices(store, columns), pl.col("conversation_id"), sides["conversation_id"])
    found = []
    for rows in chain([store.empty("conversations", columns)], read):
        some = rows.join(sides, on="conversation_id")
        opening = pl.when("left").then(pl.col("turns").list.first().struct.field("content"))
        told = marks([pl.col(name) for name in _MODELS], answers_of(pl.col("turns")))
        words = wording(some.select(opening).to_series(), None)
        found.append(some.select("vote", "left", conversation_id="side", **told, **PARTS).hstack(words))
    parts = pl.concat(found)
    known = features_of_parts(store, parts, versions)
    return parts.drop("num_turns", "prompt_id", "turns", "image_ids").hstack(known.drop("conversation_id"))


_MORE = ("code", "multi_turn")
_LANGUAGE = pl.col("language").map_elements(english_name, return_dtype=pl.String).replace("unknown", None)
_MODELS = ("model_a", "model_b")
_OF_BATTLES = [
    "battle_id", "conversation_a", "conversation_b", *_MODELS, "winner", "anonymous", "turns_a", "tstamp", "judge",
    "vote_reason",
]  # fmt: skip
_EITHER = ("refusal", *MARKS)
"""Facts of a side that hold for a vote when they hold for either side."""
