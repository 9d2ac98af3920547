"""The Prefect task of ratings: leaderboards of anonymous battles, per slice and under style control."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.bench import BenchAgreement
from schemas.errors import BadInput
from schemas.judge_release import JudgeAgreement, JudgeCard
from schemas.judging import JudgeRating
from schemas.rating import Rating, VoteStatistics
from schemas.run import StageReport
from schemas.settings import Settings
from schemas.tables import TABLES as STORED
from schemas.written import SAMPLED
from tasks.leaderboard.agreement import bench_agreement
from tasks.leaderboard.battle_files import read_battles
from tasks.leaderboard.judged.release import Chosen, chosen_verdicts, judge_agreement, judge_cards, released_board
from tasks.leaderboard.leaderboard import CATEGORY, OVERALL
from tasks.leaderboard.rating_tables import (
    ALL_SLICES,
    PAIR_CARDS,
    TABLES,
    VOTE_STATISTICS,
    RatingTables,
    method_of,
)
from tasks.leaderboard.submissions.stored import keep_board, stored_board
from tasks.leaderboard.votes import votes
from tasks.runtime.timing import timed
from tasks.runtime.untrusted import one_line
from tasks.storage.parquet import read_parquet_groups
from tasks.storage.queries.conversation_features import (
    CATEGORIES,
    TAXONOMY,
    conversation_features,
    english_name,
    with_labels,
)
from tasks.storage.queries.released import battles_as_released, conversations_as_released
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store, frame_of

_ASKED = ["question_id"]
_FEATURES = {"assistant_tokens": "tokens", **{name: name for name in ("headers", "list_items", "bold", "entities")}}
"""Column of `conversation_features` -> style covariate."""


@task(cache_policy=NO_CACHE)
@timed
def rate_submissions(settings: Settings, judge_version: str) -> StageReport:
    """Write the board of a written benchmark to a dated file; earlier ones stay. A note where there is none yet."""
    store, chosen = Store.open(settings.store), settings.evaluate
    shuffled = chosen.elo_order == "shuffled"
    try:
        board = stored_board(store, chosen.bench or SAMPLED, judge_version, method_of(settings), shuffled)
    except BadInput as error:  # no verdict so far, as when the budget is used up or the judge is down
        return StageReport(stage="board", notes=[str(error)])
    players = len({row.model for row in board})
    return StageReport(stage="board", counts={"players": players}, result=keep_board(store, board))


@task(cache_policy=NO_CACHE)
@timed
def rate_models(settings: Settings, versions: Versions, release: Path | None = None) -> StageReport:
    """Write `ratings`, the other rating tables and `bench_agreement`.

    With the folder of a release, the boards are those of its battle table, as `curate rate RELEASE` gives them;
    otherwise those of all kept battles.
    """
    store = Store.open(settings.store)
    every = rated_battles(store, versions, named=True) if release is None else read_battles(release / "battle", True)
    whole = RatingTables(
        every.filter(~pl.col("named")).drop("named"),
        method_of(settings),
        reference=settings.anchor_model,
        exclude_outliers=settings.exclude_outlier_judges,
    )
    tables = replace(whole, slices=(ALL_SLICES,))
    store.replace(VOTE_STATISTICS, frame_of(VoteStatistics, replace(whole, battles=every).rows(VOTE_STATISTICS)))
    for name in TABLES.keys() - {"style_control", PAIR_CARDS, VOTE_STATISTICS}:
        rows = (tables if name in _BY_SLICE else whole).rows(name)
        rows = [*rows, *tables.styled[0]] if name == "ratings" else rows
        store.replace(name, frame_of(STORED[name].row, rows))
    on_topics = _bench_agreement(store, tables.rated, settings.seed)
    store.replace("bench_agreement", frame_of(BenchAgreement, on_topics))
    counts = {
        "battles": tables.battles.height,
        "boards": len({row.slice for row in tables.ratings}) + bool(tables.styled[0]),
        "outlier_judges": len(whole.outliers),
    }
    return StageReport(stage="rate", counts=counts)


@task(cache_policy=NO_CACHE)
@timed
def rate_judged(settings: Settings, versions: Versions, release: Path) -> StageReport:
    """Write `judge_ratings`, `judge_agreement` and `judge_cards`: the judge's board of the release in this folder.

    They are empty when no verdict is on the draw that is released. The people's board is that of `ratings`.
    """
    store = Store.open(settings.store)
    groups = (g for file in sorted(release.glob("bench/data/*.parquet")) for g in read_parquet_groups(file, _ASKED))
    prompts = sorted(pl.concat([pl.DataFrame(schema=dict.fromkeys(_ASKED, pl.String)), *groups])["question_id"])
    board, about, cards = list[JudgeRating](), list[JudgeAgreement](), list[JudgeCard]()
    chosen = chosen_verdicts(store, prompts, settings.judge_version)
    if chosen:
        board = released_board(store, chosen.verdicts, prompts, settings, versions)
        people = [Rating(**row) for row in store.read("ratings").filter(slice=OVERALL).iter_rows(named=True)]
        about, cards = [judge_agreement(chosen.verdicts, board, people)], judge_cards(chosen.verdicts)
    store.replace("judge_ratings", frame_of(JudgeRating, board))
    store.replace("judge_agreement", frame_of(JudgeAgreement, about))
    store.replace("judge_cards", frame_of(JudgeCard, cards))
    counts = {"prompts": len(prompts), "verdicts": len(cards), "boards": len({row.slice for row in board})}
    return StageReport(stage="rate_judged", counts=counts, notes=_whose(about, chosen))


def _whose(about: Sequence[JudgeAgreement], chosen: Chosen | None) -> list[str]:
    """Whose verdicts are released, and how many judge versions are left out."""
    notes = [f"board by {row.judge}, {row.protocol}, against {row.baseline}, draw {row.draw}" for row in about]
    if chosen and chosen.left_out:
        notes.append(f"verdicts of {len(chosen.left_out)} other judge versions on this draw are not released")
    return [one_line(note) for note in notes]


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
    prompt = known.select(
        "conversation_id",
        "language",
        "context_tokens",
        *(pl.col(name).alias(CATEGORY + name) for name in (*CATEGORIES, *_MORE)),
    ).join(presets, on="conversation_id", how="left")
    prompt = prompt.join(with_labels(store, sides, versions).select("conversation_id", *TAXONOMY), on="conversation_id")
    joined = battles.join(prompt, left_on="conversation_a", right_on="conversation_id", maintain_order="left")
    for side in ("a", "b"):
        answers = known.select(
            pl.col("conversation_id").alias(f"conversation_{side}"),
            *(pl.col(name).alias(f"{covariate}_{side}") for name, covariate in _FEATURES.items()),
            pl.col("refusal").alias(f"refusal_{side}"),
        )
        joined = joined.join(answers, on=f"conversation_{side}", maintain_order="left")
    return joined.with_columns(
        question_id="battle_id",
        language=_LANGUAGE,
        refusal=pl.col("refusal_a") | pl.col("refusal_b"),
        rounds=pl.col("turns_a").cast(pl.Int64),
    )


_MORE = ("code", "multi_turn")
_BY_SLICE = ("ratings", "vote_shares", "style_coefficients", "rank_changes")
_LANGUAGE = pl.col("language").map_elements(english_name, return_dtype=pl.String).replace("unknown", None)
