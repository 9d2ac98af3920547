"""Votes of a store's judges, held against the people's votes on the same battles."""

import polars as pl

from schemas.agreement import LabelAgreement
from schemas.errors import BadInput
from tasks.agreement.agree import agreement
from tasks.agreement.label_files import Labels, labels_of
from tasks.storage.tables import Store

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
            found.append(agreement(people, labels_of(name, rows, f"judge {name!r}"), rounds, seed))
    if not found:
        raise BadInput(f"no judge of store {store.root!r} gave a verdict on any of {votes.height:,} battles")
    return found


def crowd(store: Store, battle_ids: pl.Series) -> Labels:
    """The people's votes on these battles."""
    battles = store.read("battles", ["battle_id", "winner"]).filter(pl.col("battle_id").is_in(battle_ids.implode()))
    return labels_of(PEOPLE, battles.select(item="battle_id", rater=pl.lit(PEOPLE), label="winner"), "the battles")
