"""Experts, reviewers and judges, held against the people's votes on the same battles, and the boards of experts."""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import polars as pl

from schemas.benches.agreement import LabelAgreement, RaterAgreement
from schemas.benches.written import PUBLISHED
from schemas.errors import BadInput
from schemas.items.review import CANNOT_TELL, QueueName, ReviewerAgreement
from schemas.rating import Agreement
from schemas.tags import ASKED_LATER, TAGS
from tasks.judging.agreement.agree import has_several, label_agreement, rater_agreement
from tasks.judging.agreement.label_files import VOTE_NAMES, Labels, labels_of
from tasks.leaderboard.agreement import agreement as board_agreement
from tasks.leaderboard.leaderboard import leaderboard
from tasks.leaderboard.votes import rateable, votes
from tasks.storage.tables import Store

BOOTSTRAP_ROUNDS = 1000
_HASHED = r"^[0-9a-f]{24}$"
"""A rater of a list, under a keyed hash."""
_ITEM = pl.concat_str("item_id", "content_id", pl.col("reasons").list.join(" "), separator="\n")
_WINNER = {vote: winner.value for winner, vote in VOTE_NAMES.items()}


class Experts(NamedTuple):
    """Agreements in filled-in sheets."""

    pairs: list[LabelAgreement]
    """People against each expert, then every two experts with a common battle."""
    raters: list[RaterAgreement]
    """All experts together; empty when no battle has two."""
    boards: Agreement | None
    """The experts' board held against that of the people on the same battles; None with fewer than two models."""


def experts(people: Labels, sheets: Sequence[Labels], battles: pl.DataFrame, rounds: int, seed: int) -> Experts:
    """Agreement of people and experts. `battles`: question_id, model_a and model_b of every battle of the sheets.

    Raises BadInput when one expert's sheet is given twice.
    """
    names = [sheet.name for sheet in sheets]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadInput(f"two sheets are named {twice!r}; name each file after its expert")
    every = Labels("experts", pl.concat([sheet.rows for sheet in sheets]))
    matched_people = Labels(people.name, people.rows.filter(pl.col("item").is_in(every.rows["item"].implode())))
    pairs = [label_agreement(matched_people, sheet, rounds, seed) for sheet in sheets]
    for a, b in combinations(sheets, 2):
        if set(a.rows["item"]) & set(b.rows["item"]):
            pairs.append(label_agreement(a, b, rounds, seed))
    raters = [rater_agreement(every, rounds, seed)] if has_several(every) else []
    boards = []  # of experts, then of people
    for rows in (every.rows, matched_people.rows):
        winner = pl.col("label").replace_strict(_WINNER, return_dtype=pl.String)
        labelled_battles = rows.join(battles, left_on="item", right_on="question_id").with_columns(winner=winner)
        boards.append(leaderboard(votes(rateable(labelled_battles))))
    return Experts(pairs, raters, board_agreement(*boards) if min(map(len, boards)) > 1 else None)


PEOPLE_ROW = "people"


def judges_against_people(store: Store, rounds: int, seed: int) -> list[LabelAgreement]:
    """One comparison for each version of a judge that voted, in the order of their names.

    Raises BadInput when no judge has voted, or when none of its votes is a verdict.
    """
    votes = store.read("judge_votes", ["battle_id", "judge", "judge_version", "label"])
    if votes.is_empty():
        raise BadInput(f"store {store.root!r} has no votes of a judge; ask for some with --sample N")
    people = crowd(store, votes["battle_id"])
    versions = votes.select("judge", "judge_version").unique().sort("judge", "judge_version")
    agreements = []
    for judge, version in versions.iter_rows():
        of_judge = votes.filter(judge=judge, judge_version=version).unique(
            "battle_id", keep="last", maintain_order=True
        )
        name = judge if versions["judge"].to_list().count(judge) == 1 else version
        rows = of_judge.select(item="battle_id", rater=pl.lit(version), label="label")
        if rows["label"].null_count() < rows.height:
            agreements.append(label_agreement(people, labels_of(name, rows, f"judge {name!r}"), rounds, seed))
    if not agreements:
        raise BadInput(f"no judge of store {store.root!r} gave a verdict on any of {votes.height:,} battles")
    return agreements


def crowd(store: Store, battle_ids: pl.Series) -> Labels:
    """The people's votes on these battles."""
    battles = store.read("battles", ["battle_id", "winner"]).filter(pl.col("battle_id").is_in(battle_ids.implode()))
    return labels_of(
        PEOPLE_ROW, battles.select(item="battle_id", rater=pl.lit(PEOPLE_ROW), label="winner"), "the battles"
    )


def reviewer_agreements(reviews: pl.DataFrame, seed: int = 0) -> list[ReviewerAgreement]:
    """One row for each queue and each two reviewers with a common item; in queue `tags` for each tag.

    `reviews`: the table `reviews` without nulls. Left out are verdicts of lists without a reviewer's name, raters of
    lists (`curate review results items` says how far they agree), and battles about which an expert could not tell.
    """
    raters = pl.col("reviewer").str.contains(_HASHED) | (pl.col("reviewer") == PUBLISHED)
    none = (pl.col("queue") == QueueName.SHEET.value) & (pl.col("verdict") == CANNOT_TELL)
    named = reviews.filter(pl.col("reviewer") != "", ~none, ~raters).with_columns(item=_ITEM)
    # the verdicts of queue `tags` as one queue for each tag
    tag_reviews = named.filter(queue=QueueName.TAGS.value)
    was_asked = {
        tag: pl.col("reasons").list.contains(ASKED_LATER.get(tag, "")) | pl.lit(tag not in ASKED_LATER) for tag in TAGS
    }
    holds = {tag: pl.col("verdict").str.split(" ").list.contains(tag) for tag in TAGS}
    frames = [
        tag_reviews.filter(was_asked[tag]).select(
            pl.lit(f"tags: {tag}").alias("queue"),
            "item",
            "reviewer",
            verdict=pl.when(holds[tag]).then(pl.lit("yes")).otherwise(pl.lit("no")),
        )
        for tag in TAGS
    ]
    others = named.filter(pl.col("queue") != QueueName.TAGS.value).select("queue", "item", "reviewer", "verdict")
    agreements = list[ReviewerAgreement]()
    for (queue,), rows in sorted(pl.concat([*frames, others]).partition_by("queue", as_dict=True).items()):
        labels = rows.select("item", rater="reviewer", label="verdict")
        of_each = [Labels(who, labels.filter(rater=who)) for who in sorted(labels["rater"].unique())]
        for a, b in combinations(of_each, 2):
            if set(a.rows["item"]) & set(b.rows["item"]):
                likeness = label_agreement(a, b, BOOTSTRAP_ROUNDS, seed)
                agreements.append(ReviewerAgreement(
                    queue=str(queue), a=a.name, b=b.name, items=likeness.items, agreement=likeness.accuracy or 0.0,
                    kappa=likeness.kappa, kappa_ci95_low=likeness.kappa_ci95_low,
                    kappa_ci95_high=likeness.kappa_ci95_high,
                ))  # fmt: skip
    return agreements
