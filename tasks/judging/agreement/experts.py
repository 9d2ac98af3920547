"""Experts and judges, held against the people's votes on the same battles, and the boards of experts."""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import polars as pl

from schemas.benches.agreement import LabelAgreement, RaterAgreement
from schemas.errors import BadInput
from schemas.rating import Agreement
from tasks.judging.agreement.agree import has_several, label_agreement, rater_agreement
from tasks.judging.agreement.label_files import VOTES, Labels, labels_of
from tasks.leaderboard.agreement import agreement as board_agreement
from tasks.leaderboard.leaderboard import leaderboard
from tasks.leaderboard.votes import rateable, votes
from tasks.storage.tables import Store

_WINNER = {vote: winner.value for winner, vote in VOTES.items()}


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
    asked = Labels(people.name, people.rows.filter(pl.col("item").is_in(every.rows["item"].implode())))
    pairs = [label_agreement(asked, sheet, rounds, seed) for sheet in sheets]
    for a, b in combinations(sheets, 2):
        if set(a.rows["item"]) & set(b.rows["item"]):
            pairs.append(label_agreement(a, b, rounds, seed))
    raters = [rater_agreement(every, rounds, seed)] if has_several(every) else []
    boards = []  # of experts, then of people
    for rows in (every.rows, asked.rows):
        winner = pl.col("label").replace_strict(_WINNER, return_dtype=pl.String)
        told = rows.join(battles, left_on="item", right_on="question_id").with_columns(winner=winner)
        boards.append(leaderboard(votes(rateable(told))))
    return Experts(pairs, raters, board_agreement(*boards) if min(map(len, boards)) > 1 else None)


PEOPLE = "people"


def judges_against_people(store: Store, rounds: int, seed: int) -> list[LabelAgreement]:
    """One comparison for each version of a judge that voted, in the order of their names.

    Raises BadInput when no judge has voted, or when none of its votes is a verdict.
    """
    votes = store.read("judge_votes", ["battle_id", "judge", "judge_version", "label"])
    if votes.is_empty():
        raise BadInput(f"store {store.root!r} has no votes of a judge; ask for some with --sample N")
    people = crowd(store, votes["battle_id"])
    versions = votes.select("judge", "judge_version").unique().sort("judge", "judge_version")
    found = []
    for judge, version in versions.iter_rows():
        of_judge = votes.filter(judge=judge, judge_version=version).unique(
            "battle_id", keep="last", maintain_order=True
        )
        name = judge if versions["judge"].to_list().count(judge) == 1 else version
        rows = of_judge.select(item="battle_id", rater=pl.lit(version), label="label")
        if rows["label"].null_count() < rows.height:
            found.append(label_agreement(people, labels_of(name, rows, f"judge {name!r}"), rounds, seed))
    if not found:
        raise BadInput(f"no judge of store {store.root!r} gave a verdict on any of {votes.height:,} battles")
    return found


def crowd(store: Store, battle_ids: pl.Series) -> Labels:
    """The people's votes on these battles."""
    battles = store.read("battles", ["battle_id", "winner"]).filter(pl.col("battle_id").is_in(battle_ids.implode()))
    return labels_of(PEOPLE, battles.select(item="battle_id", rater=pl.lit(PEOPLE), label="winner"), "the battles")
