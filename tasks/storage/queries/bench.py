"""Order of models on every board, and tables about the topics and the benchmark of a store.

A model's interval may be so wide that it has a better rank than one with a higher rating. Boards are read by rank, so
rank comes first everywhere: in tables, cards, reports and pages.
"""

from collections.abc import Sequence
from typing import Any

import polars as pl

from schemas.benches.known import KnownCount
from schemas.items.topic import TopicFit
from tasks.storage.tables import Store

APART = "separate_group"
"""Flag of models that no chain of decisive votes joins to the others."""
RANK_RULE = (
    "Rank is 1 + the number of clearly better models, whose 95 % interval of the lead lies above 0; equal ranks are in "
    "the order of the ratings."
)


def best_first(board: pl.DataFrame, value: str = "rating", within: Sequence[str] = ()) -> pl.DataFrame:
    """Rows of boards in the order in which people read them, for each combination of `within`.

    Models apart from the others come last, before them those without a rank. `board` has `rank`, `model`, `flags` and
    the column `value`.
    """
    apart = pl.col("flags").list.contains(APART).fill_null(value=False)
    descending = [*[False] * len(within), False, False, True, False]
    return board.sort(*within, apart, "rank", value, "model", descending=descending, nulls_last=True)


def place_on_board(flags: Sequence[str], rank: int | None, value: float | None, model: str) -> tuple[object, ...]:
    """Sort key of one row in the order of `best_first`."""
    return APART in flags, rank is None, rank or 0, value is None, -(value or 0.0), model


def contests(fragility: pl.DataFrame) -> pl.DataFrame:
    """One row a contest of each board of which something is told, in order, overall first, with what both changes need.

    Columns: slice, contest, place, model, rival, difference, of, unit, removed, removed_fraction, reversed and
    reversed_fraction. First place has two rows where the changes need different rivals.
    """
    about = ["slice", "contest", "place", "model", "rival", "difference", "of", "unit"]
    # A row is one contest of one board, with what removing and what reversing votes needs side by side.
    wide = (
        fragility.drop_nulls("rival")
        .group_by(about, maintain_order=True)
        .agg(
            pl.col(column).filter(change=change).first().alias(f"{change}{column.removeprefix('needed')}")
            for change in ("removed", "reversed")
            for column in ("needed", "needed_fraction")
        )
    )
    return wide.sort(
        pl.col("slice") != "overall", "slice", pl.col("contest") != "first_place", "place", maintain_order=True
    )


def checked_votes(checks: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows of `vote_checks` that found a vote: those that do not count in full first, then in order of their names."""
    checks_with_votes = checks.filter(pl.col("votes") > 0)
    return checks_with_votes.sort(pl.col("check") != "not_in_full", "check").to_dicts()


FAILURES = "failures"
"""Name of the drawn failures where models are asked a benchmark, and start of their draw in `verdicts`."""


def topic_sizes(store: Store) -> pl.DataFrame:
    """topic, name, prompts (distinct, with their images) and conversations, the largest topic first."""
    topics = store.read("topics", ["document_id", "topic", "name"])
    document_counts = store.read("conversations", ["document_id"]).group_by("document_id").agg(conversations=pl.len())
    sizes = topics.join(document_counts, on="document_id", how="left").group_by("topic", "name")
    counted = sizes.agg(prompts=pl.len(), conversations=pl.col("conversations").sum())
    return counted.sort("prompts", "topic", descending=[True, False])


def bench_tables(store: Store) -> dict[str, pl.DataFrame]:
    """Table name -> rows: prompts left by each filter, prompts by topic, measures, hidden split counted by month."""
    topics = store.read("topics", ["topic", "name"]).group_by("topic", "name").agg(prompts=pl.len())
    drawn = store.read("bench", ["topic"]).group_by("topic").agg(drawn=pl.len())
    hidden = store.read("hidden").group_by("first_month", "last_month")
    return {
        "bench_funnel": store.read("bench_funnel").select("filter", "prompts"),
        "bench_topics": topics.join(drawn, on="topic", how="left")
        .with_columns(pl.col("drawn").fill_null(0))
        .sort("topic"),
        "bench_measures": store.read("bench_measures"),
        "bench_agreement": store.read("bench_agreement").with_columns(pl.col("flags").list.join(" ")),
        "hidden": hidden.agg(reserved=pl.len(), drawn=pl.col("drawn").sum()).sort("first_month"),
    }


def bench_evidence(store: Store) -> dict[str, list[dict[str, Any]]]:
    """Rows of bench_funnel, bench_measures and bench_agreement, for the dataset card."""
    names = ("bench_funnel", "bench_measures", "bench_agreement")
    return {name: store.read(name).to_dicts() for name in names}


def changes_of_hidden(store: Store) -> pl.DataFrame:
    """Changes of the hidden split in its last epoch, each with the first conversation that has the prompt."""
    conversations = store.read("conversations", ["conversation_id", "document_id", "tstamp"]).sort(
        "tstamp", "conversation_id"
    )
    first = conversations.unique("document_id", keep="first").select("document_id", "conversation_id")
    changes = store.read("hidden_changes").join(first, on="document_id", how="left")
    return changes.select("epoch", "change", "conversation_id", "why").sort("change", "conversation_id")


def fit_in_use(store: Store) -> TopicFit | None:
    """The fit that the topics are of; None when the store does not say."""
    rows = store.read("topic_fits").filter("in_use").iter_rows(named=True)
    return next((TopicFit(**row) for row in rows), None)


def known_counts(store: Store) -> pl.DataFrame:
    """A row of `KnownCount` for each known benchmark of the index, also for one of which no chat holds anything."""
    sources = store.read("known_sources", ["benchmark"])
    matches = store.read("known_matches", ["benchmark", "picture", "question"])
    shows, asks = pl.col("picture").is_not_null(), pl.col("question").is_not_null()
    counts = {"picture": shows, "question": asks, "both": shows & asks, "conversations": shows | asks}
    counted = matches.group_by("benchmark").agg(
        which.sum().cast(pl.Int64).alias(name) for name, which in counts.items()
    )
    rows = sources.join(counted, on="benchmark", how="left").with_columns(pl.col(*counts).fill_null(0))
    return rows.select(KnownCount.model_fields.keys()).sort("benchmark")
