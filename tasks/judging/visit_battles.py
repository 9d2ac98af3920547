"""Battles from verdicts of a judge without the image: both orders of two answers to one item, put together."""

from collections.abc import Sequence

import polars as pl

from schemas.errors import BadInput, known_values
from tasks.judging.protocols import VISIT_PROTOCOLS, AnswerPair, Protocol
from tasks.storage.content_id import combined_id
from tasks.storage.tables import Store
from tasks.written_bench.written_items import ItemForJudging, items_for_judging

REFERENCE = "reference"
"""The verified reference as a player on boards; no model may have this name."""
ITEMS_DRAW = "items-"
"""Start of the draw, in `verdicts`, of a written benchmark."""
_OF_PAIR = ["question_id", "shown", "model_a", "model_b", "answer_a", "answer_b"]
_COLUMNS = [*_OF_PAIR, "label", "judge", "judge_version", "draw", "protocol"]


def shown_id(item: ItemForJudging, with_reference: bool) -> str:
    """Content id of what the judge is shown of an item: a verdict holds for no other captions or reference."""
    return combined_id("shown", [item.instruction, *item.captions, item.reference or "" if with_reference else ""])


def visit_verdicts(store: Store, bench: str, judge_version: str | None = None, generic: bool = False) -> pl.DataFrame:
    """The verdicts on one benchmark's items by one judge version, which may be left out where there is only one.

    Only those on the captions and references that the items have now; `generic`: on generic captions.

    Raises BadInput without verdicts, for an unknown version, and for several: a board never mixes judges.
    """
    items = items_for_judging(store, bench, not_given=True, generic=generic)
    current = [shown_id(item, with_reference) for item in items for with_reference in (False, True)]
    verdicts = store.read("verdicts", _COLUMNS).filter(
        pl.col("protocol").is_in(VISIT_PROTOCOLS), pl.col("shown").is_in(current), draw=f"{ITEMS_DRAW}{bench}"
    )
    if verdicts.is_empty():
        raise BadInput(
            f"store {store.root!r} has no verdicts on benchmark {bench!r}; make some with "
            "`curate judge compare --protocol visit` or `curate judge submit`"
        )
    versions = sorted(verdicts["judge_version"].unique())
    if judge_version is not None and judge_version not in versions:
        raise BadInput(f"--judge-version {known_values(judge_version, versions)}")
    if judge_version is None and len(versions) > 1:
        raise BadInput(
            f"a board never mixes verdicts of several judges; choose with --judge-version: {', '.join(versions)}"
        )
    return verdicts.filter(judge_version=judge_version or versions[0])


def judged_answers(verdicts: pl.DataFrame, *more: str) -> pl.DataFrame:
    """Columns `more`, model and version of both answers of every verdict."""
    return pl.concat(verdicts.select(*more, model=f"model_{side}", version=f"answer_{side}") for side in ("a", "b"))


def one_answer_version(verdicts: pl.DataFrame) -> pl.DataFrame:
    """The verdicts. Raises BadInput when they are on two versions of a model's answers; the reference may have many."""
    answer_versions = judged_answers(verdicts).unique().filter(pl.col("model") != REFERENCE)
    several = answer_versions.group_by("model").len().filter(pl.col("len") > 1)
    if not several.is_empty():
        raise BadInput(
            f"verdicts on two versions of the answers of {several['model'].sort()[0]!r} do not mix on a board; submit "
            "each version under a name of its own"
        )
    return verdicts


def visit_battles(verdicts: pl.DataFrame) -> pl.DataFrame:
    """One row per battle that has both orders: `_OF_PAIR` with sorted models, `winner`, `flipped` and both verdicts.

    The player with more of the two verdicts wins; otherwise it is a tie, also where neither order has one. `flipped`:
    each order names the answer shown first, or each the one shown second. `in_order` and `turned` are the winners
    (model_a, model_b or null) that each order names, `in_order` with model_a shown first.
    """
    first_wins = pl.col("label").replace_strict({"A>B": True, "B>A": False}, return_dtype=pl.Boolean)
    ordered = pl.col("model_a") < pl.col("model_b")
    sides = {
        f"{what}_{side}": pl.when(ordered).then(f"{what}_{side}").otherwise(f"{what}_{other}")
        for what in ("model", "answer")
        for side, other in (("a", "b"), ("b", "a"))
    }
    seats = verdicts.unique([*_OF_PAIR, "judge_version"], keep="last", maintain_order=True).with_columns(
        ordered=ordered, a_wins=pl.when(ordered).then(first_wins).otherwise(~first_wins), **sides
    )
    names = {True: "model_a", False: "model_b"}
    named = pl.col("a_wins").replace_strict(names, return_dtype=pl.String)
    wins = pl.col("a_wins").cast(pl.Int8) * 2 - 1
    both = (
        seats.group_by(_OF_PAIR, maintain_order=True)
        .agg(
            orders=pl.col("ordered").n_unique(),
            balance=wins.sum(),
            said=pl.col("a_wins").count(),
            in_order=named.filter("ordered").first(),
            turned=named.filter(~pl.col("ordered")).first(),
        )
        .filter(orders=2)
    )
    # One value is one battle: who won more of its two orders; a tie where neither did.
    winner = pl.when(pl.col("balance") > 0).then(pl.lit("model_a")).when(pl.col("balance") < 0).then(pl.lit("model_b"))
    return both.select(
        *_OF_PAIR, "in_order", "turned", winner=winner.otherwise(pl.lit("tie")),
        flipped=(pl.col("said") == 2) & (pl.col("balance") == 0), no_verdict=2 - pl.col("said").cast(pl.Int64),
    ).sort(_OF_PAIR)  # fmt: skip


def order_counts(store: Store, pairs: Sequence[AnswerPair], protocol: Protocol, version: str) -> dict[str, int]:
    """How many battles of the pairs have both orders, tie, or flip with the order."""
    key = [*protocol.key, "judge_version"]
    named = [(*(pair.row[name] for name in protocol.key), version) for pair in pairs]
    keys = pl.DataFrame(named, schema=dict.fromkeys(key, pl.String), orient="row")
    battles = visit_battles(store.read("verdicts", [*key, "label"]).join(keys, on=key, how="semi"))
    ties = battles.filter(winner="tie").height
    return {"battles": battles.height, "ties": ties, "flipped": int(battles["flipped"].sum())}
