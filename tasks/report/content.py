"""Builds the sections of the report from the tables of a store."""

from collections.abc import Mapping, Sequence

import polars as pl

from schemas.decision import ALL_DROPS
from schemas.policy import Policy
from schemas.run import Funnel
from schemas.tag_evaluation import TagCount
from tasks.report.boards import battle_parts, bench_parts
from tasks.report.figures import RED, bars, days, matrix, shares
from tasks.report.kept import Kept, kept_battles, kept_conversations
from tasks.report.page import Content, Part
from tasks.report.topics import topic_counts, topic_tree_part, topics_part
from tasks.storage.queries.conversation_features import (
    ALL_TAGS,
    CRITERIA,
    TAXONOMY,
    overlap,
    tag_counts,
    taxonomy_counts,
)
from tasks.storage.queries.funnel import REPEATS, funnel, reason_texts
from tasks.storage.queries.language_names import UNKNOWN, english_name
from tasks.storage.queries.released import decided_policy
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store

MOST = 20
"""Most rows of a bar chart; the table lists all."""
_PARITY = (
    "Conversations and battles that each rule of our policy matches, and that FastChat's cleaner matches (policy "
    "upstream, on the same signals; its rules about votes are counted on conversations too). Rules are paired by name. "
    "The figure shows the rules that upstream has, and splits what either finds."
)
_EMBEDDED = "The embedded default uses keywords and layout only and is less accurate."
_TAGS = {
    "categories": "Kept conversations of each category; one may have several (VisionArena Fig. 5).",
    "criteria": f"Kept conversations whose prompt meets each criterion; not measured includes undecided. {_EMBEDDED}",
    "taxonomy": f"Kept conversations by WildVision's taxonomy, the {MOST} largest classes in the figure. {_EMBEDDED}",
}
_OVERLAP = (
    "Percentage of the kept conversations with the row's category that also have the column's category (VisionArena "
    "Fig. 24). Empty: no conversation has the row's category."
)


def report_content(store: Store, versions: Versions) -> Content:
    """Everything on the page. Sections without data are left out."""
    gone, kept, topics = funnel(store), kept_conversations(store, versions), topic_counts(store)
    battles, pairs = kept_battles(store)
    parts = [
        _removed(gone, decided_policy(store)),
        redactions_part(store),
        _parity(store.read("rule_parity")),
        _days(kept.tallies["day",], battles),
        _counts("models", "Models", "Kept conversations of each model.", kept.tallies["model",]),
        _counts(
            "languages", "Languages", "Language of the prompt (VisionArena Fig. 4).", _spoken(kept.tallies["language",])
        ),
        *_tags(kept.tallies),
        _counts("turns", "Turns", "User messages in a kept conversation.", kept.tallies["num_turns",]),
        topics_part(store, topics),
        topic_tree_part(store, topics),
        *bench_parts(store),
        *battle_parts(store, pairs),
    ]
    numbers = _numbers(kept, int(battles["battles"].sum()), topics, store.height("bench"))
    return Content(gone, numbers, [part for part in parts if part is not None])


def _numbers(kept: Kept, battles: int, topics: pl.DataFrame, prompts: int) -> dict[str, int]:
    """Counts at the head of the page, in order."""
    codes = kept.tallies["language",]["language"]
    return {
        "conversations": kept.rows,
        "battles": battles,
        "models": kept.tallies["model",].height,
        "languages": sum(english_name(code or "") != UNKNOWN for code in codes),
        "users": kept.users,
        "images": kept.images,
        "topics": topics.filter(pl.col("topic") >= 0)["topic"].n_unique(),
        "benchmark prompts": prompts,
    }


def _spoken(codes: pl.DataFrame) -> pl.DataFrame:
    """Replace language codes by English names."""
    named = [english_name(code or "") for code in codes["language"]]
    return codes.select("conversations", languages=pl.Series(named, dtype=pl.String))


def _removed(gone: Funnel, policy: Policy | None) -> Part | None:
    meanings = reason_texts(policy) if policy else REPEATS
    by_fate = {"dropped": gone.dropped_by, "rejected": gone.rejected_by}
    rows = [(fate, r, n, meanings.get(r, "")) for fate, counts in by_fate.items() for r, n in counts.items()]
    if not rows:
        return None
    table = pl.DataFrame(rows, schema=["fate", "reason", "lines", "means"], orient="row")
    shown = table.filter(~pl.col("reason").is_in(list(REPEATS)))
    counts = {f"{reason} ({fate})": lines for fate, reason, lines, _ in shown.head(MOST).iter_rows()}
    repeats = sum(n for reason, n in gone.dropped_by.items() if reason in REPEATS)
    about = (
        "Input lines that are not in the release, each by its first reason in the policy's order. "
        f"Lines that repeat other lines ({', '.join(REPEATS)}: {repeats:,}) are not in the figure."
        + (f" {gone.held:,} of the dropped lines are waiting for review." if gone.held else "")
    )
    return Part("removed", "What was removed, and why", about, table, bars(counts, "lines", RED))


def redactions_part(store: Store) -> Part | None:
    """Number of kept conversations by type of redaction; None without redactions."""
    slices = store.read_slices("decisions", ["item_kind", "item_id", "keep", "redactions"])
    parts = [_redacted(rows) for rows in slices]  # an item is in one slice only
    redacted = sum(conversations for conversations, _ in parts)
    if redacted == 0:
        return None
    table = (
        pl.concat([each for _, each in parts])
        .group_by("part", "type")
        .agg(pl.col("conversations", "replaced").sum())
        .sort("conversations", "part", "type", descending=[True, False, False])
    )
    figure = bars({f"{kind} ({part})": n for part, kind, n, _ in table.iter_rows()}, "conversations")
    about = (
        f"Personal data removed from {redacted:,} kept conversations: text replaced by placeholders, and image regions "
        "filled. The detectors ran again afterwards and found none of it."
    )
    return Part("redactions", "What was redacted", about, table, figure)


def _redacted(decisions: pl.DataFrame) -> tuple[int, pl.DataFrame]:
    """Number of redacted conversations in some decisions, and counts by part and type."""
    kept = decisions.filter("keep", item_kind="conversation").select("item_id", "redactions")
    each = kept.explode("redactions").drop_nulls("redactions").unnest("redactions")
    conversations, replaced = pl.col("item_id").n_unique().cast(pl.Int64), pl.col("count").sum().cast(pl.Int64)
    table = each.group_by("part", "type").agg(conversations=conversations, replaced=replaced)
    return each["item_id"].n_unique(), table


def _parity(table: pl.DataFrame) -> Part | None:
    """Matches of our rules next to those of FastChat's cleaner."""
    if table.is_empty():
        return None
    larger, last = pl.max_horizontal("ours", "upstream"), pl.col("reason") == ALL_DROPS
    ordered = table.sort("item_kind", last, larger, "reason", descending=[False, True, True, False])
    shared = ordered.filter(pl.col("upstream") > 0) if (table["upstream"] > 0).any() else ordered
    names = [f"{reason} ({kind})" for kind, reason in shared.select("item_kind", "reason").iter_rows()]
    found = ("only_ours", "both", "only_upstream")
    fractions = shared.select(pl.col(found) / pl.sum_horizontal(found))
    parts = {name.replace("_", " "): fractions[name].to_list() for name in found}
    figure = shares(names, parts, "% of what either finds")
    return Part("rule_parity", "Our rules and upstream's", _PARITY, ordered, figure, show_table=True)


def _days(conversations: pl.DataFrame, battles: pl.DataFrame) -> Part | None:
    table = (
        conversations.join(battles, on="day", how="full", coalesce=True)
        .with_columns(pl.col("conversations", "battles").fill_null(0).cast(pl.Int64))
        .sort("day")
    )
    if table.is_empty():
        return None
    series = {name: table[name].to_list() for name in ("conversations", "battles")}
    about = "Kept conversations and battles per UTC day."
    return Part("days", "Days", about, table, days(table["day"].to_list(), series))


def _counts(key: str, title: str, about: str, tally: pl.DataFrame) -> Part | None:
    """A section with a bar chart of a tally of one column."""
    (column,) = set(tally.columns) - {"conversations"}
    table = (
        tally.group_by(pl.col(column).alias(key))
        .agg(pl.col("conversations").sum())
        .with_columns(pl.col(key).cast(pl.String).fill_null("not measured"))
        .sort("conversations", key, descending=[True, False])
    )
    if table.is_empty():
        return None
    return Part(key, title, about, table, bars(dict(table.head(MOST).iter_rows()), "conversations"))


def _tags(tallies: Mapping[tuple[str, ...], pl.DataFrame]) -> list[Part]:
    """Sections on categories, their overlap, criteria and taxonomy, if measured."""
    tags, met = tallies[ALL_TAGS], tallies[CRITERIA]
    if tags.is_empty():
        return []
    table = overlap(tags, ALL_TAGS)
    percent = 100 * table.drop("tag").fill_null(float("nan")).to_numpy()
    parts = [
        _tag_counts("categories", "Categories", tag_counts(tags, ALL_TAGS), "category"),
        Part("overlap", "Overlap of categories", _OVERLAP, table, matrix(ALL_TAGS, ALL_TAGS, percent)),
    ]
    places, criteria = taxonomy_counts(tallies[TAXONOMY]), tag_counts(met, CRITERIA)
    if any(row.not_told < met["conversations"].sum() for row in criteria):
        parts.append(_tag_counts("criteria", "BenchBuilder's criteria", criteria, "criterion"))
    if places:
        parts.append(_tag_counts("taxonomy", "Taxonomy", places, "place"))
    return parts


def _tag_counts(key: str, title: str, rows: Sequence[TagCount], column: str) -> Part:
    found = [(row.tag, row.items, row.not_told) for row in rows]
    table = pl.DataFrame(found, schema=[column, "conversations", "not_measured"], orient="row")
    shown = table.sort("conversations", descending=True, maintain_order=True).head(MOST)
    figure = bars(dict(shown.select(column, "conversations").iter_rows()), "conversations")
    return Part(key, title, _TAGS[key], table, figure)
