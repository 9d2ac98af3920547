"""Builds the sections of the report from the tables of a store."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

import polars as pl

from schemas.items.decision import ALL_DROPS
from schemas.items.topic import NAMELESS
from schemas.policy import Policy
from schemas.run import Funnel
from schemas.tags import TagCount
from tasks.report.boards import Tables, battle_parts, bench_parts, intervals, vote_parts
from tasks.report.figures import NAMED_TOPICS, RED, bars, daily_panels, matrix, merges, paired_bars, shares, topic_map
from tasks.report.page import SECTIONS, Content, Part, part
from tasks.runtime.untrusted import one_line
from tasks.storage.queries.bench import known_counts
from tasks.storage.queries.conversation_features import (
    ALL_TAGS,
    ANSWERS,
    BATTLE_CONFIG,
    CHAT,
    COUNTED,
    CRITERIA,
    PAIRS,
    TAXONOMY,
    UNKNOWN,
    Tallies,
    overlap,
    tag_counts,
    taxonomy_counts,
)
from tasks.storage.queries.released import decided_policy
from tasks.storage.records import REPEATS, funnel, reason_texts
from tasks.storage.reviews import detector_precisions
from tasks.storage.tables import Store

GREY_BAR_ROWS = 30
"""Bars of fewer rows are grey."""
BARS_MAX = 20
"""Most rows of a bar chart; the table lists all."""
POINTS_MAX = 5_000
"""Most points on the map, about; each takes 100 bytes of the page."""
_LEAVES_MAX = 60
"""Most leaves in the figure of the tree; the table lists all merges."""


def report_content(store: Store, tallies: Tallies, more: Iterable[Part] = ()) -> Content:
    """Everything on the page, in the order of `sections.yaml`, with `more` sections of products.

    `tallies` counts the rows of the release. Sections without data are left out.
    """
    gone, topics = funnel(store), topic_counts(store)
    parts = [
        *parts_of_rows(gone, decided_policy(store), tallies, store),
        redactions_part(store),
        reviewed_part(store),
        known_part(store),
        _parity(store.read("rule_parity")),
        topics_part(store, topics),
        topic_tree_part(store, topics),
        *bench_parts(store, tallies.failures),
        *more,
    ]
    order = list(SECTIONS)
    sections = sorted(
        (section for section in parts if section is not None), key=lambda section: order.index(section.key)
    )
    withheld, reasons = _of_decisions(store, tallies)
    return Content(gone, head_numbers(tallies, topics, store.height("bench")) | reasons, withheld, sections)


UNRELEASED = ("criteria", "taxonomy")
"""Sections of `parts_of_rows` about labels that rows of `chat` are released without."""


def parts_of_rows(gone: Funnel, policy: Policy | None, tallies: Tallies, tables: Tables) -> list[Part | None]:
    """Sections about the log lines, and about the rows of a release and their votes; None without data.

    They rest on nothing but the release, so that `curate verify` makes their tables again. `tables`: the rating tables.
    """
    return [
        _removed(gone, policy),
        _days(tallies),
        _counts("models", tallies, ANSWERS),
        *_answers(tallies),
        _counts("languages", tallies, ("language",)),
        *_tags(tallies),
        _counts("turns", tallies, ("num_turns",)),
        *battle_parts(tables, tallies.of(BATTLE_CONFIG, PAIRS)),
        *vote_parts(tables),
    ]


def head_numbers(tallies: Tallies, topics: pl.DataFrame, prompts: int) -> dict[str, int]:
    """Counts at the head of the page, in order. `topics`: rows with `topic`, -1 for outliers."""
    # the models and the languages that any row of either configuration has, each once
    models, languages = (_both(tallies, columns)[columns[0]].drop_nulls() for columns in (ANSWERS, ("language",)))
    return {
        "conversations": tallies.rows[CHAT], "battles": tallies.rows[BATTLE_CONFIG], "models": len(models),
        "languages": sum(name != UNKNOWN for name in languages), "users": len(tallies.users),
        "images": len(tallies.images), "topics": topics.filter(pl.col("topic") >= 0)["topic"].n_unique(),
        "benchmark prompts": prompts,
    }  # fmt: skip


_KEPT_ITEMS = """
    -- the only row has numbers of kept items, and of kept battles whose voters' words are released or withheld
    SELECT
        count(*) FILTER (item_kind = 'conversation') AS conversations,
        count(*) FILTER (item_kind = 'battle') AS battles,
        count(*) FILTER (item_kind = 'battle' AND len(vote_reason_withheld) = 0) AS released_reasons,
        count(*) FILTER (item_kind = 'battle' AND len(vote_reason_withheld) > 0) AS withheld_reasons
    FROM decisions
    WHERE keep
"""
_REDACTIONS = """
    -- a row is one redaction of a kept conversation: in which part, of which type, and how many places of it
    SELECT item_id, unnest(redactions, recursive := true)
    FROM decisions
    WHERE keep AND item_kind = 'conversation' AND len(redactions) > 0
"""


def _of_decisions(store: Store, tallies: Tallies) -> tuple[dict[str, int], dict[str, int]]:
    """Numbers of kept conversations and battles that are in no configuration, and of kept votes by their reason.

    Reasons are released or withheld; nothing where no voter wrote any.
    """
    (counts,) = store.ask(_KEPT_ITEMS).iter_rows(named=True)
    withheld = {
        "conversations": counts["conversations"] - tallies.rows[CHAT],
        "battles": counts["battles"] - tallies.rows[BATTLE_CONFIG],
    }
    reasons = {"vote reasons": counts["released_reasons"], "vote reasons withheld": counts["withheld_reasons"]}
    return withheld, reasons if any(reasons.values()) else {}


def _removed(gone: Funnel, policy: Policy | None) -> Part | None:
    meanings = reason_texts(policy) if policy else REPEATS
    rows = [(*row, meanings.get(row[1], "")) for row in gone.reasons()]
    if not rows:
        return None
    table = pl.DataFrame(rows, schema=["outcome", "reason", "lines", "means"], orient="row")
    removals = table.filter(~pl.col("reason").is_in(list(REPEATS)))
    # a bar is one reason with its outcome; repeats are no removals, and a sentence counts them
    counts = {f"{reason} ({outcome})": lines for outcome, reason, lines, _ in removals.head(BARS_MAX).iter_rows()}
    repeats = sum(n for reason, n in gone.dropped_by.items() if reason in REPEATS)
    conversations = f"{gone.held_conversations:,} conversations wait for a review"
    held_sentence = f" {gone.held:,} of the dropped lines are held: their {conversations}." if gone.held else ""
    repeated = f"{', '.join(REPEATS)}: {repeats:,}"
    return part("removed", table, bars(counts, "lines", RED), repeats=repeated, held=held_sentence)


def redactions_part(store: Store) -> Part | None:
    """Number of kept conversations by type of redaction; None without redactions."""
    redactions = pl.concat(store.batches(_REDACTIONS))
    if redactions.is_empty():
        return None
    conversations, replaced = pl.col("item_id").n_unique().cast(pl.Int64), pl.col("count").sum().cast(pl.Int64)
    # a row is one type of redaction in one part of a conversation
    counts = redactions.group_by("part", "type").agg(conversations=conversations, replaced=replaced)
    table = counts.sort("conversations", "part", "type", descending=[True, False, False])
    figure = bars({f"{kind} ({part})": n for part, kind, n, _ in table.iter_rows()}, "conversations")
    return part("redactions", table, figure, redacted=redactions["item_id"].n_unique())


def reviewed_part(store: Store) -> Part | None:
    """Precision of detectors by provider and type, as people confirmed what they found; None without reviews."""
    rows = [row.model_dump() for row in detector_precisions(store)]
    if not rows:
        return None
    table = pl.DataFrame(rows).with_columns(pl.col("precision", "ci95_low", "ci95_high").round(3))
    # a name is one detector: type, provider, and how many of its findings people reviewed
    names = [f"{row['type']}, {one_line(row['provider'], 40)} ({row['reviewed']:,})" for row in rows]
    figure = intervals(names, table, ("precision", "ci95_low", "ci95_high"), "precision")
    return part("detector_precision", table, figure)


def known_part(store: Store) -> Part | None:
    """Conversations of the store that hold what is in each known benchmark; None where none is named."""
    table = known_counts(store)
    if table.is_empty():
        return None
    figure = bars(dict(table.select("benchmark", "conversations").iter_rows()), "conversations")
    return part("known_benchmarks", table, figure)


def _parity(table: pl.DataFrame) -> Part | None:
    """Matches of our rules next to those of FastChat's cleaner."""
    if table.is_empty():
        return None
    larger, is_total = pl.max_horizontal("ours", "upstream"), pl.col("reason") == ALL_DROPS
    # a row is one reason for one kind of item; that of all reasons together comes first of its kind
    ordered = table.sort("item_kind", is_total, larger, "reason", descending=[False, True, True, False])
    # the figure leaves out reasons for which FastChat's cleaner matches nothing, unless it matches nothing at all
    shared = ordered.filter(pl.col("upstream") > 0) if (table["upstream"] > 0).any() else ordered
    names = [f"{reason} ({kind})" for kind, reason in shared.select("item_kind", "reason").iter_rows()]
    columns = ("only_ours", "both", "only_upstream")
    # no row has a sum of 0: a reason is in the table because one of both cleaners gives it to an item
    fractions = shared.select(pl.col(columns) / pl.sum_horizontal(columns))
    parts = {name.replace("_", " "): fractions[name].to_list() for name in columns}
    figure = shares(names, parts, "% of what either finds")
    return part("rule_parity", ordered, figure)


def _days(tallies: Tallies) -> Part | None:
    table = _both(tallies, ("day",)).sort("day")
    if table.is_empty():
        return None
    series = {name: table[name].to_list() for name in COUNTED}
    return part("days", table, daily_panels(table["day"].to_list(), series))


def _both(tallies: Tallies, columns: tuple[str, ...], examples: bool = True) -> pl.DataFrame:
    """Values of one column with the rows of each configuration that have it, in a column a configuration.

    `examples`: rows about the arena's own example images count, too.
    """
    # a frame is one configuration that has rows; its row is one value with the number of rows that have it
    frames = [
        tallies.of(config, columns, examples).select(*columns, pl.col("conversations").alias(config))
        for config in COUNTED
        if tallies.rows[config]
    ]
    if not frames:
        return pl.DataFrame(schema={columns[0]: pl.String, **dict.fromkeys(COUNTED, pl.Int64)})
    # a row is one value that any configuration has; null where one has no row of it
    both = reduce(
        lambda joined, frame: joined.join(frame, on=columns, how="full", coalesce=True, nulls_equal=True), frames
    )
    counts = {
        config: pl.col(config).fill_null(0) if config in both.columns else pl.lit(0, pl.Int64) for config in COUNTED
    }
    return both.select(*columns, **counts)


def _counts(key: str, tallies: Tallies, columns: tuple[str, ...]) -> Part | None:
    counts = _both(tallies, columns, examples=False).rename({columns[0]: key})
    table = counts.with_columns(pl.col(key).cast(pl.String).fill_null("not measured"))
    # a share is of the rows of one configuration, so that both are on one scale
    shares = {f"{config}_share": pl.col(config) / pl.col(config).sum() for config in COUNTED}
    return _compared(key, table.with_columns(**shares), tallies) if table.height else None


def _compared(key: str, table: pl.DataFrame, tallies: Tallies, **words: object) -> Part:
    """A section with shares of both configurations side by side on one scale, or of the only one that has rows.

    The figure leaves out names whose shares are unknown, and has no bar where one is; the table has them.
    `table` has names, their rows in each configuration (`chat`) and their shares there, 0 to 1 (`chat_share`).
    """
    name, share = table.columns[0], pl.col(f"{config}_share" for config in COUNTED)
    rounded = table.with_columns(pl.when(share.is_finite()).then(share.round(4)))
    # a row is one name, those of most rows in both configurations first
    ordered = rounded.sort(pl.sum_horizontal(COUNTED), name, descending=[True, False])
    measured = ordered.filter(pl.any_horizontal(share.is_not_null()))  # a share that nobody knows is not drawn as 0
    first_rows, filled = measured.head(BARS_MAX), [config for config in COUNTED if ordered[config].sum()]
    series = {config: (100 * first_rows[f"{config}_share"]).to_list() for config in filled}
    # the places among the bars of a configuration that rest on few rows and are grey
    thin = {
        config: [place for place, rows in enumerate(first_rows[config]) if rows < GREY_BAR_ROWS] for config in filled
    }
    figure = paired_bars(first_rows[name].to_list(), series, "% of rows", digits=1, thin=thin)
    return part(key, ordered, figure, examples=_examples(tallies), few=GREY_BAR_ROWS, **words)


def _examples(tallies: Tallies) -> str:
    """The number of rows that are about the arena's own example images, such as `110 of chat, 0 of battle`."""
    # the rows of a configuration that are not about example images
    rows = {config: tallies.of(config, ("day",), examples=False)["conversations"].sum() for config in COUNTED}
    return ", ".join(
        f"{tallies.rows[config] - rows[config]:,} of {config}" for config in COUNTED if tallies.rows[config]
    )


def _answers(tallies: Tallies) -> list[Part]:
    """Sections on the length of the models' answers, and on their refusals."""
    tables = {config: tallies.of(config, ANSWERS) for config in COUNTED if tallies.rows[config]}
    if not any(table["counted"].sum() for table in tables.values()):
        return []
    # a frame is one configuration; its row is one model with the mean length of its counted answers
    lengths = [
        table.select("model", pl.when(pl.col("counted") > 0).then(pl.col("tokens") / pl.col("counted")).alias(config))
        for config, table in tables.items()
    ]
    # a row is one model of any configuration with its mean length in each, null where it has no answer there
    table = reduce(
        lambda joined, config_lengths: joined.join(config_lengths, on="model", how="full", coalesce=True), lengths
    )
    table = table.with_columns(pl.col(pl.Float64).round(1)).sort(
        table.columns[1], "model", descending=[True, False], nulls_last=True
    )
    first_models = table.head(BARS_MAX)
    series = {config: first_models[config].to_list() for config in tables}
    parts = [part("answer_lengths", table, paired_bars(first_models["model"].to_list(), series, "tokens an answer"))]
    measured = tables.get(CHAT, pl.DataFrame(schema={"told": pl.Int64})).filter(pl.col("told") > 0)
    if measured.height:
        share = (pl.col("refusals") / pl.col("told")).round(4)
        # a row is one model, with those of its conversations for which it is known whether it refuses
        refused = measured.select("model", "refusals", conversations="told", share=share)
        refused = refused.sort("share", "model", descending=[True, False])
        percent = {model: 100 * share for model, _, _, share in refused.head(BARS_MAX).iter_rows()}
        parts.append(part("refusals", refused, bars(percent, "% of conversations", digits=1)))
    return parts


def _tags(tallies: Tallies) -> list[Part]:
    """Sections on categories, their overlap, criteria and taxonomy, if measured."""
    if not any(tallies.rows.values()):
        return []
    # a row of a table is one combination of tags in a configuration, with its number of rows
    of_tags = {config: tallies.of(config, ALL_TAGS) for config in COUNTED if tallies.rows[config]}
    table = overlap(next(iter(of_tags.values())), ALL_TAGS)
    percent = 100 * table.drop("tag").fill_null(float("nan")).to_numpy()
    categories = {config: tag_counts(tallies.of(config, ALL_TAGS, examples=False), ALL_TAGS) for config in of_tags}
    of_categories = _labels("categories", categories, tallies)
    parts = [of_categories, part("overlap", table, matrix(ALL_TAGS, ALL_TAGS, percent))]
    met = tallies.of(CHAT, CRITERIA, examples=False)
    places = {config: taxonomy_counts(tallies.of(config, TAXONOMY, examples=False)) for config in of_tags}
    criteria = tag_counts(met, CRITERIA) if met.height else []
    if any(row.known for row in criteria):
        parts.append(_labels("criteria", {CHAT: criteria}, tallies))
    if any(places.values()):
        parts.append(_labels("taxonomy", places, tallies, most=BARS_MAX, known=_known(places)))
    return parts


def _known(places: Mapping[str, Sequence[TagCount]]) -> str:
    """The share of prompts whose place is known, for each part of the taxonomy and each configuration."""
    # (part of the taxonomy, configuration) -> share: all places of one part have the same, so any of them gives it
    shares = {
        (row.tag.partition(":")[0], config): f"{row.known:.0%}" for config, rows in places.items() for row in rows
    }
    return ", ".join(f"{name.replace('_', ' ')} {share} of {config}" for (name, config), share in shares.items())


def _labels(key: str, counts: Mapping[str, Sequence[TagCount]], tallies: Tallies, **words: object) -> Part:
    """A section on labels: in each configuration the rows that have one, those of which it is not known, and the share.

    A share is of the rows of which it is known.
    """
    # a row is one label in one configuration
    label_rows = [
        (row.tag, config, row.items, row.not_told, row.share) for config, rows in counts.items() for row in rows
    ]
    schema = {"label": pl.String, "config": pl.String, "items": pl.Int64, "unknown": pl.Int64, "share": pl.Float64}
    long = pl.DataFrame(label_rows, schema, orient="row", strict=False)
    labels = long.select("label").unique(maintain_order=True)
    for config in COUNTED:
        columns = {config: "items", f"{config}_unknown": "unknown", f"{config}_share": "share"}
        # a row is one label with its counts in one configuration, null for a label that no row there has
        config_labels = long.filter(config=config).select("label", **columns)
        labels = labels.join(config_labels, on="label", how="left", maintain_order="left")
    return _compared(key, labels.with_columns(pl.col(pl.Int64).fill_null(0)), tallies, **words)


def topic_counts(store: Store) -> pl.DataFrame:
    """topic, name and number of documents."""
    # A row is one topic.
    return store.read("topics", ["topic", "name"]).group_by("topic", "name").agg(documents=pl.len()).sort("topic")


def _names_on_figures(topics: pl.DataFrame) -> dict[int, str]:
    """Topic -> its name. One that has none, as its table says, has its number alone on figures."""
    unnamed = pl.col("name").str.contains(NAMELESS)
    return dict(topics.select("topic", pl.when(unnamed).then(pl.lit("")).otherwise("name")).iter_rows())


def topics_part(store: Store, counts: pl.DataFrame) -> Part | None:
    """The map and the counts; None without topics. With many documents the map shows a regular sample of them."""
    if counts.is_empty():
        return None
    every = -(-int(counts["documents"].sum()) // POINTS_MAX)
    points = store.read("topics", ["x", "y", "topic"]).gather_every(every)
    inside = counts.filter(pl.col("topic") >= 0)
    sizes, names = dict(inside.select("topic", "documents").iter_rows()), _names_on_figures(inside)
    x, y, topic = (points[name].to_numpy() for name in points.columns)
    sample = f" The map shows one prompt in {every:,}." if every > 1 else ""
    return part("topics", counts, topic_map(x, y, topic, names, sizes), named=NAMED_TOPICS, sample=sample)


def topic_tree_part(store: Store, counts: pl.DataFrame) -> Part | None:
    """The merge tree of topics; None with fewer than two topics."""
    tree = store.read("topic_tree").sort("node")
    if tree.is_empty():
        return None
    inside = counts.filter(pl.col("topic") >= 0)
    names, figure_names = dict(inside.select("topic", "name").iter_rows()), _names_on_figures(inside)
    left, right = (pl.col(side).replace_strict(names, default="", return_dtype=pl.String) for side in ("left", "right"))
    distance = pl.col("distance").cast(pl.Float64).round(4)
    table = tree.with_columns(distance, left_name=left, right_name=right)
    # nodes, which are topics and merges of them, are renumbered, because topics without documents leave gaps
    nodes = pl.concat([tree["left"], tree["right"], tree["node"]]).unique().sort()
    topics = nodes.filter(~nodes.is_in(tree["node"].implode()))
    place = {node: number for number, node in enumerate(nodes)}
    # a row is one merge of two nodes, by their new numbers
    rows = [(place[left], place[right], distance) for left, right, distance in tree["left", "right", "distance"].rows()]
    return part(
        "topic_tree", table, merges(rows, [f"{topic} {figure_names.get(topic, '')}" for topic in topics], _LEAVES_MAX)
    )
