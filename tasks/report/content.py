"""What the report shows, computed from the tables of a store."""

import polars as pl

from schemas.policy import Policy
from schemas.run import Funnel
from tasks.language_names import UNKNOWN, english_name
from tasks.lookup.facts import Versions
from tasks.lookup.funnel import REPEATS, funnel, reason_texts
from tasks.lookup.released import decided_policy
from tasks.report.bench import bench_parts
from tasks.report.boards import battle_parts
from tasks.report.figures import bars, days
from tasks.report.kept import Kept, kept_battles, kept_conversations
from tasks.report.palette import RED
from tasks.report.parity import parity_part
from tasks.report.part import Content, Part
from tasks.report.redactions import redactions_part
from tasks.report.tags import tag_parts
from tasks.report.topic_tree import topic_tree_part
from tasks.report.topics import topic_counts, topics_part
from tasks.tables import Store

MOST = 20
"""Rows of a bar chart; the table holds all."""


def report_content(store: Store, versions: Versions) -> Content:
    """Everything on the page. Sections without data are left out."""
    gone, kept, topics = funnel(store), kept_conversations(store, versions), topic_counts(store)
    battles, pairs = kept_battles(store)
    spoken = _spoken(kept.tallies["language",])
    parts = [
        _removed(gone, decided_policy(store)),
        redactions_part(store),
        parity_part(store),
        _days(kept.tallies["day",], battles),
        _counts("models", "Models", "Kept conversations of each model.", kept.tallies["model",]),
        _counts("languages", "Languages", "Language of the prompt (VisionArena Fig. 4).", spoken),
        *tag_parts(kept.tallies),
        _counts("turns", "Turns", "User messages in a kept conversation.", kept.tallies["num_turns",]),
        topics_part(store, topics),
        topic_tree_part(store),
        *bench_parts(store),
        *battle_parts(store, pairs),
    ]
    numbers = _numbers(kept, int(battles["battles"].sum()), topics, store.height("bench"))
    return Content(gone, numbers, [part for part in parts if part is not None])


def _numbers(kept: Kept, battles: int, topics: pl.DataFrame, prompts: int) -> dict[str, int]:
    """What the head of the page says, in its order."""
    codes = kept.tallies["language",]["language"]
    return {
        "conversations": kept.rows,
        "battles": battles,
        "models": kept.tallies["model",].height,
        "languages": sum(english_name(code or "") != UNKNOWN for code in codes),
        "users": kept.users,
        "pictures": kept.pictures,
        "topics": topics.filter(pl.col("topic") >= 0)["topic"].n_unique(),
        "benchmark prompts": prompts,
    }


def _spoken(codes: pl.DataFrame) -> pl.DataFrame:
    """A tally of languages by their English names."""
    named = [english_name(code or "") for code in codes["language"]]
    return codes.select("conversations", languages=pl.Series(named, dtype=pl.String))


def _removed(gone: Funnel, policy: Policy | None) -> Part | None:
    texts = reason_texts(policy) if policy else REPEATS
    by_fate = {"dropped": gone.dropped_by, "rejected": gone.rejected_by}
    rows = [(fate, r, n, texts.get(r, "")) for fate, counts in by_fate.items() for r, n in counts.items()]
    schema = {"fate": pl.String, "reason": pl.String, "lines": pl.Int64, "means": pl.String}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    if table.is_empty():
        return None
    shown = table.filter(~pl.col("reason").is_in(list(REPEATS)))
    counts = {f"{reason} ({fate})": lines for fate, reason, lines, _ in shown.head(MOST).iter_rows()}
    repeats = sum(n for reason, n in gone.dropped_by.items() if reason in REPEATS)
    about = (
        "Input lines that are not in the release, by the first reason in the policy's order. "
        f"Lines that only repeat what other lines hold ({', '.join(REPEATS)}: {repeats:,}) are not in the figure."
        + (f" {gone.held:,} of the dropped lines only wait for a review." if gone.held else "")
    )
    return Part("removed", "What was removed, and why", about, table, bars(counts, "lines", RED))


def _days(conversations: pl.DataFrame, battles: pl.DataFrame) -> Part | None:
    table = (
        conversations.join(battles, on="day", how="full", coalesce=True)
        .with_columns(pl.col("conversations", "battles").fill_null(0).cast(pl.Int64))
        .sort("day")
    )
    if table.is_empty():
        return None
    series = {name: table[name].to_list() for name in ("conversations", "battles")}
    about = "Kept conversations and battles of each UTC day on which there were any."
    return Part("days", "Days", about, table, days(table["day"].to_list(), series))


def _counts(key: str, title: str, about: str, tally: pl.DataFrame) -> Part | None:
    """Of a tally of one column."""
    (column,) = set(tally.columns) - {"conversations"}
    table = (
        tally.group_by(pl.col(column).alias(key))
        .agg(pl.col("conversations").sum())
        .with_columns(pl.col(key).cast(pl.String).fill_null("not measured"))
        .sort("conversations", key, descending=[True, False])
    )
    if table.is_empty():
        return None
    counts = dict(table.head(MOST).iter_rows())
    return Part(key, title, about, table, bars(counts, "conversations"))
