"""Where every input line went: kept, dropped or rejected, exactly once, with the first reason, and what reasons mean.

A chat line stands for its conversation when it holds the final state, a vote line for its battle. A line that a
later one replaced (a conversation grew, an answer was regenerated, a vote was cast again) is dropped as
`superseded`; a share line repeats what votes hold and is dropped as `share_record`.
"""

from collections.abc import Iterator

import polars as pl

from schemas.policy import Policy, Rule
from schemas.reject import REJECT_TEXTS
from schemas.run import Funnel
from tasks.storage.database import TemporaryDatabase
from tasks.storage.tables import Store

SUPERSEDED, SHARE = "superseded", "share_record"
REPEATS = {
    SUPERSEDED: "a later line of the same conversation or vote replaced it",
    SHARE: "a shared link; it repeats conversations that other lines hold",
}
"""Lines that carry nothing of their own, and what that means."""
_FATES = """
CREATE TABLE fates AS
WITH lines AS (
    SELECT source, line, first(record_type ORDER BY place) AS record_type FROM sightings GROUP BY source, line
), known AS (
    SELECT lines.source, lines.line, record_type, item_id, keep, reason, held
    FROM lines
    LEFT JOIN items ON items.source = lines.source AND items.line = lines.line AND items.item_kind =
        CASE WHEN record_type IN ('leftvote', 'rightvote', 'tievote', 'bothbad_vote')
        THEN 'battle' ELSE 'conversation' END
    LEFT JOIN decisions USING (item_kind, item_id)
), judged AS (  -- a share line may be all that is known of two conversations; it is kept when either is
    SELECT DISTINCT ON (source, line) * FROM known ORDER BY source, line, keep DESC NULLS LAST, item_id
)
SELECT source, line, if(keep, 'kept', 'dropped') AS fate, coalesce(held, false) AS held,
    CASE WHEN coalesce(keep, false) THEN NULL WHEN reason IS NOT NULL THEN reason
    WHEN record_type = 'share' THEN 'share_record' ELSE 'superseded' END AS reason
FROM judged
UNION ALL
SELECT source, line, 'rejected', false, reason FROM rejects WHERE line IS NOT NULL
"""
_LINE = ["source", "line"]


def line_fates(store: Store) -> pl.DataFrame:
    """source, line, fate (kept, dropped, rejected) and reason (null when kept) of every line, once each."""
    return _fates(store).read("SELECT source, line, fate, reason FROM fates ORDER BY source, line")


def funnel(store: Store) -> Funnel:
    """Counts of `line_fates`, and how many lines wait for nothing but a review.

    Raises AssertionError when the counts do not add up, because then nothing may be released.
    """
    database = _fates(store)
    counts = database.read(
        "SELECT fate, reason, count(*) AS number FROM fates GROUP BY ALL ORDER BY number DESC, reason"
    )
    lines = database.read("SELECT count(DISTINCT (source, line)) FROM fates").item()
    held = database.read("SELECT count(*) FROM fates WHERE held").item()
    assert counts["number"].sum() == lines, "a line has two fates"
    totals = {fate: int(counts.filter(fate=fate)["number"].sum()) for fate in ("kept", "dropped", "rejected")}
    by_reason = {
        f"{fate}_by": dict(counts.filter(fate=fate).select("reason", "number").iter_rows())
        for fate in ("dropped", "rejected")
    }
    return Funnel(lines=lines, **totals, **by_reason, held=held)


def _fates(store: Store) -> TemporaryDatabase:
    """A database with the table `fates`."""
    database = TemporaryDatabase()
    database.load("sightings", _read(store, "sightings", [*_LINE, "record_type"]))
    database.load("rejects", _read(store, "rejects", [*_LINE, "reason"]))
    database.load("items", (rows for table in ("conversation", "battle") for rows in _items(store, table)))
    first = pl.col("reasons").list.first().alias("reason")
    decided = _read(store, "decisions", ["item_id", "item_kind", "keep", "reasons", "held"])
    database.load("decisions", (rows.with_columns(first).drop("reasons") for rows in decided))
    database.run(_FATES)
    return database


def _items(store: Store, kind: str) -> Iterator[pl.DataFrame]:
    for rows in _read(store, f"{kind}s", [f"{kind}_id", *_LINE]):
        yield rows.select(pl.lit(kind).alias("item_kind"), pl.col(f"{kind}_id").alias("item_id"), *_LINE)


def _read(store: Store, table: str, columns: list[str]) -> Iterator[pl.DataFrame]:
    """A table some rows at a time, after a frame without rows."""
    yield store.empty(table, columns)
    yield from store.read_slices(table, columns)


def reason_texts(policy: Policy) -> dict[str, str]:
    """Reason -> what makes it fire; of rejects as well."""
    texts: dict[str, str] = {}
    for each in policy.rules:
        texts[each.reason] = "; or ".join(filter(None, (texts.get(each.reason), _rule(each))))
    texts |= {
        f"unmeasured_{rule.signal.partition('.')[0]}": "no measurement, which counts against it"
        for rule in policy.rules
    }
    if (rule := policy.duplicates) is not None:
        alike = f"the same prompt (cosine {rule.prompt_cosine_min} or more), pictures: {rule.pictures}"
        texts[rule.reason] = f"{alike}; copies kept: {rule.copies_max}"
    if (limit := policy.hot_prompts) is not None:
        kept = limit.copies_max or f"quantile {limit.copies_quantile} of the battles that each prompt has"
        texts[limit.reason] = f"more battles of the same prompt, pictures: {limit.pictures}; kept: {kept}"
    return texts | REPEATS | REJECT_TEXTS


def _rule(rule: Rule) -> str:
    if rule.at_least is not None:
        comparison = f"{rule.at_least} or more"
    elif rule.at_most is not None:
        comparison = f"{rule.at_most} or less"
    elif rule.contains_any is not None:
        comparison = f"holds {'any of ' + ', '.join(rule.contains_any) if rule.contains_any else 'anything'}"
    else:
        comparison = f"is {str(rule.equals).lower()}"
    return f"{rule.signal} of the {rule.over.replace('_', ' ')}: {comparison}"
