"""One judge with two sets of captions on the same battles: those for the instruction, and generic ones.

VisIT-Bench sec. 3 asks so whether captions must be written for their instruction.
"""

import polars as pl

from schemas.benches.judging import CaptionsCompared
from schemas.errors import BadInput
from tasks.judging.visit_battles import one_answer_version, visit_battles, visit_verdicts
from tasks.storage.tables import Store

_SAME_BATTLE = ["question_id", "model_a", "model_b", "answer_a", "answer_b"]
_WON = {"model_a": 1.0, "tie": 0.5, "model_b": 0.0}


def captions_compared(store: Store, bench: str, judge_version: str | None) -> list[CaptionsCompared]:
    """Every player's share of wins under both sets, by name; the first row is about all battles.

    Only battles that have both orders under both. Raises BadInput without any, and as `visit_verdicts` does.
    """
    verdicts = visit_verdicts(store, bench, judge_version)
    version = verdicts["judge_version"][0]
    sides = verdicts, visit_verdicts(store, bench, version, generic=True)
    told, generic = (visit_battles(one_answer_version(each)).select(*_SAME_BATTLE, "winner") for each in sides)
    both = told.join(generic, on=_SAME_BATTLE, suffix="_generic")
    if both.is_empty():
        raise BadInput(
            f"benchmark {bench!r} has no battle that judge {version!r} has decided with both sets of captions; add "
            "`--set evaluate.captions=generic` to `curate judge compare --protocol visit`"
        )
    same = pl.col("winner") == pl.col("winner_generic")
    wins = both.with_columns(
        pl.col("winner", "winner_generic").replace_strict(_WON, return_dtype=pl.Float64), same=same
    )
    turned = wins.select(pl.col("model_b").alias("model"), "same", pl.col("winner", "winner_generic") * -1 + 1)
    each = pl.concat([wins.select(pl.col("model_a").alias("model"), "same", "winner", "winner_generic"), turned])
    shares = pl.len().alias("battles"), pl.col("same").mean(), pl.col("winner", "winner_generic").mean()
    players = each.group_by("model").agg(*shares).sort("model").to_dicts()
    everything = {"model": None, **wins.select(*shares).to_dicts()[0], "winner": None, "winner_generic": None}
    return [
        CaptionsCompared(
            model=row["model"], judge_version=version, battles=row["battles"], same_outcome=row["same"],
            won=row["winner"], won_generic=row["winner_generic"],
        )
        for row in [everything, *players]
    ]  # fmt: skip
