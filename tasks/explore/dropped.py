"""What was dropped from a store: every reason with its meaning, its count and examples with their evidence."""

from typing import NamedTuple

import polars as pl

from tasks.explore.listing import SIDE
from tasks.explore.source import Reason, Source

EXAMPLES = 3
"""Examples of each reason."""


class Example(NamedTuple):
    """One dropped item."""

    row: dict[str, object]
    """A row of the listing."""
    evidence: list[str]


class Dropped(NamedTuple):
    """One reason, with examples."""

    reason: Reason
    items: int
    """Conversations and battles that have it among their reasons."""
    examples: list[Example]


def dropped(source: Source) -> list[Dropped]:
    """All reasons, most frequent first; rejected lines have no examples, because nothing of them is kept."""
    reasons = source.reasons()
    listing = source.listing.filter(pl.col("kind").cast(pl.String) != SIDE)
    each = listing.select("reasons").with_row_index("row").explode("reasons").drop_nulls()
    each = each.with_columns(pl.col("reasons").cast(pl.String))
    rows = {reason.reason: each.filter(reasons=reason.reason)["row"] for reason in reasons}
    chosen = {reason: listing[some.head(EXAMPLES)].to_dicts() for reason, some in rows.items()}
    shown = {(str(row["kind"]), str(row["id"])) for some in chosen.values() for row in some}
    evidence = source.evidence(sorted(shown))
    return [
        Dropped(
            reason,
            rows[reason.reason].len(),
            [
                Example(row, _about(evidence.get((row["kind"], row["id"]), []), reason.reason))
                for row in chosen[reason.reason]
            ],
        )
        for reason in reasons
    ]


def _about(sentences: list[str], reason: str) -> list[str]:
    """The sentences about a reason; all of them when none names it."""
    return [each for each in sentences if f"{reason}:" in each] or sentences[:2]
