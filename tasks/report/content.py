"""What the report shows, computed from the tables of a store."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from schemas.run import Funnel
from tasks.lookup.conversation_features import CATEGORIES, conversation_features
from tasks.lookup.facts import Versions
from tasks.lookup.funnel import funnel
from tasks.report.figures import RED, bars, matrix, rating_intervals, topic_map
from tasks.tables import Store

MOST = 20
"""Rows of a bar chart; the table holds all."""


@dataclass(frozen=True)
class Part:
    """One section of the report: a table that is also a CSV file, and a figure that is also an SVG file."""

    key: str
    title: str
    about: str
    table: pl.DataFrame
    figure: str | None


def report_parts(store: Store, versions: Versions) -> tuple[Funnel, list[Part]]:
    """Where the lines went, and every section in reading order. Sections without data are left out."""
    gone = funnel(store)
    conversations = store.read("conversations").sort("tstamp", "conversation_id")
    features = conversations.join(
        conversation_features(store, conversations, versions), on="conversation_id", maintain_order="left"
    )
    kept_ids = store.read("decisions").filter("keep", item_kind="conversation")["item_id"]
    kept = features.filter(pl.col("conversation_id").is_in(kept_ids.implode()))
    parts = [
        _lost(gone),
        _counts("models", "Models", "Kept conversations of each model.", kept["model"]),
        _counts("languages", "Languages", "Language of the prompt, ISO 639 (paper: Fig. 4).", kept["language"]),
        _categories(kept),
        _counts("turns", "Turns", "User messages in a kept conversation.", kept["num_turns"].cast(pl.String)),
        _topics(store.read("topics")),
        *_boards(store.read("ratings")),
        _battle_counts(store),
    ]
    return gone, [part for part in parts if part is not None]


def _lost(gone: Funnel) -> Part:
    rows = [("dropped", r, n) for r, n in gone.dropped_by.items()] + [
        ("rejected", r, n) for r, n in gone.rejected_by.items()
    ]
    table = pl.DataFrame(rows, schema={"fate": pl.String, "reason": pl.String, "lines": pl.Int64}, orient="row")
    counts = {f"{fate}: {reason}": lines for fate, reason, lines in rows[:MOST]}
    about = "Input lines that are not in the release, by the first reason in the policy's order."
    return Part("removed", "What was removed, and why", about, table, bars(counts, "lines", RED) if counts else None)


def _counts(key: str, title: str, about: str, values: pl.Series) -> Part | None:
    table = (
        values.fill_null("not measured")
        .alias(key)
        .value_counts(name="conversations")
        .sort("conversations", key, descending=[True, False])
    )
    if table.is_empty():
        return None
    counts = dict(table.head(MOST).iter_rows())
    return Part(key, title, about, table, bars(counts, "conversations"))


def _categories(kept: pl.DataFrame) -> Part | None:
    if kept.is_empty():
        return None
    names = (*CATEGORIES, "code", "refusal", "multi_turn")
    rows = [(name, int(kept[name].sum()), int(kept[name].null_count())) for name in names]
    schema = {"category": pl.String, "conversations": pl.Int64, "not_measured": pl.Int64}
    table = pl.DataFrame(rows, schema=schema, orient="row").sort("conversations", descending=True)
    figure = bars(dict(table.select("category", "conversations").iter_rows()), "conversations")
    about = "Kept conversations of each category; one may have several (paper: Fig. 5)."
    return Part("categories", "Categories", about, table, figure)


def _topics(topics: pl.DataFrame) -> Part | None:
    if topics.is_empty():
        return None
    table = topics.group_by("topic", "name").agg(documents=pl.len()).sort("topic")
    names = dict(topics.filter(pl.col("topic") >= 0).select("topic", "name").unique().sort("topic").iter_rows())
    figure = topic_map(topics["x"].to_numpy(), topics["y"].to_numpy(), topics["topic"].to_numpy(), names)
    about = "UMAP and HDBSCAN over prompts with their pictures; grey points and topic -1 are outliers."
    return Part("topics", "Topics", about, table, figure)


def _boards(ratings: pl.DataFrame) -> list[Part]:
    titles = {"overall": "Leaderboard", "style_control": "Leaderboard under style control"}
    parts = []
    for key, title in titles.items():
        board = ratings.filter(slice=key).sort("rating", "model", descending=[True, False])
        if board.is_empty():
            continue
        columns = [board[name].to_list() for name in ("model", "rating", "ci95_low", "ci95_high")]
        shown = board.select(
            "rank",
            "model",
            pl.col("rating", "ci95_low", "ci95_high").round(1),
            "battles",
            pl.col("flags").list.join(" "),
        )
        about = "Kept anonymous battles; ties are half a win each; rank 1 + models whose interval lies wholly above."
        parts.append(Part(f"leaderboard_{key}", title, about, shown, rating_intervals(*columns)))
    return parts


def _battle_counts(store: Store) -> Part | None:
    kept = store.read("decisions").filter("keep", item_kind="battle").select(battle_id="item_id")
    battles = store.read("battles").join(kept, on="battle_id")
    if battles.is_empty():
        return None
    both = pl.concat([battles.select(a="model_a", b="model_b"), battles.select(a="model_b", b="model_a")])
    table = both.group_by("a", "b").len("battles").sort("a", "b")
    names = sorted(both["a"].unique())
    values = np.zeros((len(names), len(names)))
    for a, b, count in table.iter_rows():
        values[names.index(a), names.index(b)] = count
    about = "How often each pair of models met in kept battles (paper: Fig. 12)."
    return Part("battle_counts", "Battles of each pair", about, table, matrix(names, values, "battles"))
