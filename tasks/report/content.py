"""Builds the sections of the report from the tables of a store."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import polars as pl

from schemas.items.decision import ALL_DROPS
from schemas.policy import Policy
from schemas.run import Funnel
from schemas.tags import TagCount
from tasks.report.boards import battle_parts, bench_parts, vote_parts
from tasks.report.figures import NAMED_TOPICS, RED, bars, daily_panels, matrix, merges, shares, topic_map
from tasks.report.kept import Kept, count_battles, count_conversations
from tasks.report.page import SECTIONS, Content, Part, part
from tasks.storage.queries.conversation_features import (
    ALL_TAGS,
    CRITERIA,
    TAXONOMY,
    UNKNOWN,
    english_name,
    overlap,
    tag_counts,
    taxonomy_counts,
)
from tasks.storage.queries.funnel import REPEATS, funnel, reason_texts
from tasks.storage.queries.released import decided_policy
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store

MOST = 20
"""Most rows of a bar chart; the table lists all."""
POINTS_MAX = 5_000
"""Most points on the map, about; each takes 100 bytes of the page."""
_LEAVES_MAX = 60
"""Most leaves in the figure of the tree; the table lists all merges."""


def report_content(store: Store, versions: Versions, more: Iterable[Part] = ()) -> Content:
    """Everything on the page, in the order of `sections.yaml`, with `more` sections of products.

    Sections without data are left out.
    """
    gone, kept, topics = funnel(store), count_conversations(store, versions), topic_counts(store)
    battles, pairs = count_battles(store)
    parts = [
        _removed(gone, decided_policy(store)),
        redactions_part(store),
        _parity(store.read("rule_parity")),
        _days(kept.tallies["day",], battles),
        _counts("models", kept.tallies["model",]),
        _counts("languages", _spoken(kept.tallies["language",])),
        *_tags(kept.tallies),
        _counts("turns", kept.tallies["num_turns",]),
        topics_part(store, topics),
        topic_tree_part(store, topics),
        *bench_parts(store),
        *battle_parts(store, pairs),
        *vote_parts(store),
        *more,
    ]
    order = list(SECTIONS)
    shown = sorted((each for each in parts if each is not None), key=lambda each: order.index(each.key))
    numbers = _numbers(kept, int(battles["battles"].sum()), topics, store.height("bench")) | _vote_reasons(store)
    return Content(gone, numbers, shown)


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


def _vote_reasons(store: Store) -> dict[str, int]:
    """Numbers of kept votes with a released reason and with a withheld one; nothing where no voter wrote any."""
    slices = store.read_slices("decisions", ["item_kind", "keep", "vote_reason_withheld"])
    counts = Counter[str]()
    for rows in slices:
        written = rows.filter("keep", item_kind="battle")["vote_reason_withheld"].drop_nulls().list.len()
        counts["vote reasons"] += int((written == 0).sum())
        counts["vote reasons withheld"] += int((written > 0).sum())
    return dict(counts) if counts.total() else {}


def _spoken(codes: pl.DataFrame) -> pl.DataFrame:
    """Replace language codes by English names."""
    named = [english_name(code or "") for code in codes["language"]]
    return codes.select("conversations", languages=pl.Series(named, dtype=pl.String))


def _removed(gone: Funnel, policy: Policy | None) -> Part | None:
    meanings = reason_texts(policy) if policy else REPEATS
    rows = [(*each, meanings.get(each[1], "")) for each in gone.reasons()]
    if not rows:
        return None
    table = pl.DataFrame(rows, schema=["outcome", "reason", "lines", "means"], orient="row")
    shown = table.filter(~pl.col("reason").is_in(list(REPEATS)))
    counts = {f"{reason} ({outcome})": lines for outcome, reason, lines, _ in shown.head(MOST).iter_rows()}
    repeats = sum(n for reason, n in gone.dropped_by.items() if reason in REPEATS)
    held = f" {gone.held:,} of the dropped lines are waiting for review." if gone.held else ""
    repeated = f"{', '.join(REPEATS)}: {repeats:,}"
    return part("removed", table, bars(counts, "lines", RED), repeats=repeated, held=held)


def redactions_part(store: Store) -> Part | None:
    """Number of kept conversations by type of redaction; None without redactions."""
    names = ["item_kind", "item_id", "keep", "redactions"]
    slices = chain([store.empty("decisions", names)], store.read_slices("decisions", names))
    kept = (rows.filter("keep", item_kind="conversation").select("item_id", "redactions") for rows in slices)
    each = pl.concat(rows.explode("redactions").drop_nulls("redactions") for rows in kept).unnest("redactions")
    if each.is_empty():
        return None
    conversations, replaced = pl.col("item_id").n_unique().cast(pl.Int64), pl.col("count").sum().cast(pl.Int64)
    counts = each.group_by("part", "type").agg(conversations=conversations, replaced=replaced)
    table = counts.sort("conversations", "part", "type", descending=[True, False, False])
    figure = bars({f"{kind} ({part})": n for part, kind, n, _ in table.iter_rows()}, "conversations")
    return part("redactions", table, figure, redacted=each["item_id"].n_unique())


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
    return part("rule_parity", ordered, figure)


def _days(conversations: pl.DataFrame, battles: pl.DataFrame) -> Part | None:
    joined = conversations.join(battles, on="day", how="full", coalesce=True)
    table = joined.with_columns(pl.col("conversations", "battles").fill_null(0).cast(pl.Int64)).sort("day")
    if table.is_empty():
        return None
    series = {name: table[name].to_list() for name in ("conversations", "battles")}
    return part("days", table, daily_panels(table["day"].to_list(), series))


def _counts(key: str, tally: pl.DataFrame) -> Part | None:
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
    return part(key, table, bars(dict(table.head(MOST).iter_rows()), "conversations"))


def _tags(tallies: Mapping[tuple[str, ...], pl.DataFrame]) -> list[Part]:
    """Sections on categories, their overlap, criteria and taxonomy, if measured."""
    tags, met = tallies[ALL_TAGS], tallies[CRITERIA]
    if tags.is_empty():
        return []
    table = overlap(tags, ALL_TAGS)
    percent = 100 * table.drop("tag").fill_null(float("nan")).to_numpy()
    parts = [
        _tag_counts("categories", tag_counts(tags, ALL_TAGS), "category"),
        part("overlap", table, matrix(ALL_TAGS, ALL_TAGS, percent)),
    ]
    places, criteria = taxonomy_counts(tallies[TAXONOMY]), tag_counts(met, CRITERIA)
    if any(row.not_told < met["conversations"].sum() for row in criteria):
        parts.append(_tag_counts("criteria", criteria, "criterion"))
    if places:
        parts.append(_tag_counts("taxonomy", places, "place"))
    return parts


def _tag_counts(key: str, rows: Sequence[TagCount], column: str) -> Part:
    found = [(row.tag, row.items, row.not_told) for row in rows]
    table = pl.DataFrame(found, schema=[column, "conversations", "not_measured"], orient="row")
    shown = table.sort("conversations", descending=True, maintain_order=True).head(MOST)
    figure = bars(dict(shown.select(column, "conversations").iter_rows()), "conversations")
    known = {row.tag.partition(":")[0].replace("_", " "): f"{row.known:.0%}" for row in rows}
    return part(key, table, figure, most=MOST, known=", ".join(f"{name} {share}" for name, share in known.items()))


def topic_counts(store: Store) -> pl.DataFrame:
    """topic, name and number of documents."""
    return store.read("topics", ["topic", "name"]).group_by("topic", "name").agg(documents=pl.len()).sort("topic")


def topics_part(store: Store, counts: pl.DataFrame) -> Part | None:
    """The map and the counts; None without topics. With many documents the map shows a regular sample of them."""
    if counts.is_empty():
        return None
    every = -(-int(counts["documents"].sum()) // POINTS_MAX)
    points = store.read("topics", ["x", "y", "topic"]).gather_every(every)
    inside = counts.filter(pl.col("topic") >= 0)
    names, sizes = (dict(inside.select("topic", column).iter_rows()) for column in ("name", "documents"))
    x, y, topic = (points[name].to_numpy() for name in points.columns)
    sample = f" The map shows one prompt in {every:,}." if every > 1 else ""
    return part("topics", counts, topic_map(x, y, topic, names, sizes), named=NAMED_TOPICS, sample=sample)


def topic_tree_part(store: Store, counts: pl.DataFrame) -> Part | None:
    """The merge tree of topics; None with fewer than two topics."""
    tree = store.read("topic_tree").sort("node")
    if tree.is_empty():
        return None
    names = dict(counts.filter(pl.col("topic") >= 0).select("topic", "name").iter_rows())
    left, right = (pl.col(side).replace_strict(names, default="", return_dtype=pl.String) for side in ("left", "right"))
    table = tree.with_columns(left_name=left, right_name=right)
    return part("topic_tree", table, _tree_figure(tree, names))


def _tree_figure(tree: pl.DataFrame, names: Mapping[int, str]) -> str:
    """Renumbers the nodes, because topics without documents leave gaps."""
    nodes = pl.concat([tree["left"], tree["right"], tree["node"]]).unique().sort()
    topics = nodes.filter(~nodes.is_in(tree["node"].implode()))
    place = {node: number for number, node in enumerate(nodes)}
    rows = [(place[left], place[right], distance) for left, right, distance in tree["left", "right", "distance"].rows()]
    return merges(rows, [f"{topic} {names.get(topic, '')}" for topic in topics], _LEAVES_MAX)
