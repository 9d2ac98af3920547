"""How often kept conversations have each tag, and how often two tags meet (VisionArena Fig. 5 and 24)."""

from collections.abc import Sequence

import polars as pl

from schemas.tag_evaluation import TagCount
from schemas.tags import TAGS, Criteria, Taxonomy
from tasks.lookup.facts import Versions, facts
from tasks.tables import Store

BY_RULE = ("code", "refusal", "multi_turn")
"""Tags of conversations that need no tagger."""
CRITERIA = tuple(Criteria.model_fields)
TAXONOMY = tuple(Taxonomy.model_fields)


def with_labels(store: Store, conversations: pl.DataFrame, versions: Versions) -> pl.DataFrame:
    """The conversations with their criteria and their place in the taxonomy; null where not measured."""
    for signal, columns in (("criteria", CRITERIA), ("taxonomy", TAXONOMY)):
        known = facts(store, signal, versions[signal], list(columns))
        conversations = conversations.join(
            known, left_on="document_id", right_on="content_id", how="left", maintain_order="left"
        )
    return conversations


def tallied(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The different values of some columns taken together, and how often each is there (`conversations`).

    A tally counts for the rows it was made of; tallies of parts of a table may be put one after the other.
    """
    return rows.group_by(columns).agg(conversations=pl.len().cast(pl.Int64))


def tag_counts(tally: pl.DataFrame, tags: Sequence[str]) -> list[TagCount]:
    """One row a tag, most frequent first, of a tally of bool columns."""
    rows = _conversations(tally)
    counts = [_count(tag, _conversations(tally.filter(tag)), _not_told(tally, tag), rows) for tag in tags]
    return sorted(counts, key=lambda row: -row.items)


def taxonomy_counts(tally: pl.DataFrame) -> list[TagCount]:
    """One row a value that occurs, as `Category` and `Category / Subcategory`, first of questions, then of pictures."""
    rows, every = [], _conversations(tally)
    for category, part in (TAXONOMY[:2], TAXONOMY[2:]):
        nulls = _not_told(tally, category)
        for columns in ([category], [category, part]):
            found = tally.drop_nulls(columns).group_by(columns).agg(pl.col("conversations").sum()).sort(columns)
            rows += [_count(f"{category}: {' / '.join(names)}", n, nulls, every) for *names, n in found.rows()]
    return rows


def overlap(tally: pl.DataFrame, tags: Sequence[str]) -> pl.DataFrame:
    """Columns `tag` and every tag: of the conversations with the row's tag, the share that has the column's too.

    Conversations where either could not be told count in neither number. Null where no conversation has the row's tag.
    """
    rows = [{"tag": row, **{column: _share_within(tally, row, column) for column in tags}} for row in tags]
    return pl.DataFrame(rows, schema={"tag": pl.String, **dict.fromkeys(tags, pl.Float64)})


def _share_within(tally: pl.DataFrame, row: str, column: str) -> float | None:
    told = tally.filter(row).drop_nulls(column)
    rows = _conversations(told)
    return _conversations(told.filter(column)) / rows if rows else None


def _conversations(tally: pl.DataFrame) -> int:
    return int(tally["conversations"].sum())


def _not_told(tally: pl.DataFrame, column: str) -> int:
    return _conversations(tally.filter(pl.col(column).is_null()))


def _count(tag: str, items: int, not_told: int, all_items: int) -> TagCount:
    told = all_items - not_told
    return TagCount(tag=tag, items=int(items), share=items / told if told else 0.0, not_told=not_told)


ALL_TAGS = (*TAGS, *BY_RULE)
"""Tags of the report's distribution and overlap."""
