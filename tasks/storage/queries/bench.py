"""Order of models on every board, and tables about the topics and the benchmark of a store.

A model's interval may be so wide that it has a better rank than one with a higher rating. Boards are read by rank, so
rank comes first everywhere: in tables, cards, reports and pages.
"""

from collections.abc import Sequence
from typing import Any

import polars as pl

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
    found = checks.filter(pl.col("votes") > 0)
    return found.sort(pl.col("check") != "not_in_full", "check").to_dicts()


FAILURES = "failures"
"""Name of the drawn failures where models are asked a benchmark, and start of their draw in `verdicts`."""


def topic_sizes(store: Store) -> pl.DataFrame:
    """topic, name, prompts (distinct, with their images) and conversations, the largest topic first."""
    topics = store.read("topics", ["document_id", "topic", "name"])
    asked = store.read("conversations", ["document_id"]).group_by("document_id").agg(conversations=pl.len())
    sizes = topics.join(asked, on="document_id", how="left").group_by("topic", "name")
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


def failure_tables(store: Store) -> dict[str, pl.DataFrame]:
    """Table name -> rows: failures by type, error rates by model and type, and models by drawn failure."""
    by_type = (
        store.read("failures")
        .group_by("failure_type")
        .agg(prompts=pl.len(), reviewed=pl.col("reviewed").sum(), drawn=pl.col("drawn").sum())
    )
    rates = store.read("failure_rates").with_columns(pl.col("error_rate").round(4))
    marks = hard_prompts(store).pivot("model", index=["question_id", "failure_type"], values="mark", sort_columns=True)
    by_type = by_type.sort("failure_type", nulls_last=True)
    return {"failures": by_type, "failure_rates": rates} | ({"hard_prompts": marks} if marks.height else {})


def hard_prompts(store: Store) -> pl.DataFrame:
    """Marks of every model at the drawn failures (VisionArena Table 6): question_id, failure_type, model, votes, mark.

    The mark of models that people voted on is X (every vote says both bad), O (none does) or XO. Of others that were
    asked it is win, tie or loss by a judge against the baseline; R for a refusal; ? for an answer that none has judged.
    """
    drawn = store.read("failures").filter("drawn").select("document_id", "conversation_id", "failure_type")
    bad, votes = pl.col("both_bad"), pl.col("votes")
    of_people = pl.when(bad == votes).then(pl.lit("X")).when(bad == 0).then(pl.lit("O")).otherwise(pl.lit("XO"))
    voted = store.read("failure_marks").select("document_id", "model", pl.col("votes").cast(pl.Int64), mark=of_people)
    given = store.read("answers", ["document_id", "model", "state"]).filter(pl.col("state") != "failed")
    asked = given.join(drawn, on="document_id", how="semi").unique(["document_id", "model"], keep="last")
    asked = asked.join(voted, on=["document_id", "model"], how="anti")
    asked = asked.join(_judged(store), on=["document_id", "model"], how="left")
    refused = pl.when(pl.col("state") == "refused").then(pl.lit("R"))
    answered = asked.select(
        "document_id", "model", votes=pl.lit(0, pl.Int64), mark=pl.coalesce(refused, "verdict", pl.lit("?"))
    )
    found = pl.concat([voted, answered]).join(drawn, on="document_id")
    return found.select(
        pl.col("conversation_id").alias("question_id"), "failure_type", "model", "votes", "mark"
    ).sort("question_id", "model")  # fmt: skip


def _judged(store: Store) -> pl.DataFrame:
    """document_id, model and verdict of the comparisons with a baseline on failures."""
    verdicts = store.read("verdicts", ["document_id", "model_a", "model_b", "baseline", "label", "draw"])
    own = verdicts.filter(pl.col("draw").str.starts_with(f"{FAILURES}-")).drop_nulls("label")
    first = pl.col("label").replace_strict({"A>>B": 1, "A>B": 1, "A=B": 0, "B>A": -1, "B>>A": -1})
    turned = pl.col("model_a") == pl.col("baseline")
    told = own.select(
        "document_id", model=pl.when(turned).then("model_b").otherwise("model_a"),
        won=pl.when(turned).then(-first).otherwise(first),
    )  # fmt: skip
    balance = told.group_by("document_id", "model").agg(pl.col("won").sum())
    words = pl.when(pl.col("won") > 0).then(pl.lit("win")).when(pl.col("won") < 0).then(pl.lit("loss"))
    return balance.select("document_id", "model", verdict=words.otherwise(pl.lit("tie")))


def bench_evidence(store: Store) -> dict[str, list[dict[str, Any]]]:
    """Rows of bench_funnel, bench_measures and bench_agreement, for the dataset card."""
    names = ("bench_funnel", "bench_measures", "bench_agreement")
    return {name: store.read(name).to_dicts() for name in names}


def changes_of_hidden(store: Store) -> pl.DataFrame:
    """Changes of the hidden split in its last epoch, each with the first conversation that has the prompt."""
    asked = store.read("conversations", ["conversation_id", "document_id", "tstamp"]).sort("tstamp", "conversation_id")
    first = asked.unique("document_id", keep="first").select("document_id", "conversation_id")
    changes = store.read("hidden_changes").join(first, on="document_id", how="left")
    return changes.select("epoch", "change", "conversation_id", "why").sort("change", "conversation_id")


def fit_in_use(store: Store) -> TopicFit | None:
    """The fit that the topics are of; None when the store does not say."""
    rows = store.read("topic_fits").filter("in_use").iter_rows(named=True)
    return next((TopicFit(**row) for row in rows), None)
