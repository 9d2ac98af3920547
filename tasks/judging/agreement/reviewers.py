"""How far two reviewers agree on the items of a queue that both reviewed."""

from collections.abc import Iterator
from itertools import combinations

import polars as pl

from schemas.benches.written import PUBLISHED
from schemas.items.review import CANNOT_TELL, QueueName, ReviewerAgreement
from schemas.tags import TAGS
from tasks.judging.agreement.agree import label_agreement
from tasks.judging.agreement.label_files import Labels

ROUNDS = 1000
_HASHED = r"^[0-9a-f]{24}$"
"""A rater of a list, under a keyed hash."""
_ITEM = pl.concat_str("item_id", "content_id", pl.col("reasons").list.join(" "), separator="\n")


def reviewer_agreements(reviews: pl.DataFrame, seed: int = 0) -> list[ReviewerAgreement]:
    """One row for each queue and each two reviewers with a common item; in queue `tags` for each tag.

    `reviews`: the table `reviews` without nulls. Left out are verdicts of lists without a reviewer's name, raters of
    lists (`curate review results items` says how far they agree), and battles about which an expert could not tell.
    """
    raters = pl.col("reviewer").str.contains(_HASHED) | (pl.col("reviewer") == PUBLISHED)
    none = (pl.col("queue") == QueueName.SHEET.value) & (pl.col("verdict") == CANNOT_TELL)
    named = reviews.filter(pl.col("reviewer") != "", ~none, ~raters).with_columns(item=_ITEM)
    # the verdicts of queue `tags` as one queue for each tag
    given = named.filter(queue=QueueName.TAGS.value)
    applies = [pl.col("verdict").str.split(" ").list.contains(tag) for tag in TAGS]
    frames = [
        given.select(
            pl.lit(f"tags: {tag}").alias("queue"),
            "item",
            "reviewer",
            verdict=pl.when(holds).then(pl.lit("yes")).otherwise(pl.lit("no")),
        )
        for tag, holds in zip(TAGS, applies, strict=True)
    ]
    told = pl.concat([pl.concat(frames), named.filter(pl.col("queue") != QueueName.TAGS.value).select(*_COLUMNS)])
    return [
        found
        for (queue,), rows in sorted(told.partition_by("queue", as_dict=True).items())
        for a, b in combinations(sorted(rows["reviewer"].unique()), 2)
        for found in _agreed(str(queue), _labels(rows, a), _labels(rows, b), seed)
    ]


_COLUMNS = ("queue", "item", "reviewer", "verdict")


def _labels(rows: pl.DataFrame, reviewer: str) -> Labels:
    return Labels(reviewer, rows.filter(reviewer=reviewer).select("item", rater="reviewer", label="verdict"))


def _agreed(queue: str, a: Labels, b: Labels, seed: int) -> Iterator[ReviewerAgreement]:
    if not set(a.rows["item"]) & set(b.rows["item"]):
        return
    found = label_agreement(a, b, ROUNDS, seed)
    yield ReviewerAgreement(
        queue=queue,
        a=a.name,
        b=b.name,
        items=found.items,
        agreement=found.accuracy or 0.0,
        kappa=found.kappa,
        kappa_ci95_low=found.kappa_ci95_low,
        kappa_ci95_high=found.kappa_ci95_high,
    )
