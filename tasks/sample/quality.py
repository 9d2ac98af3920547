"""How hard and clear a prompt is: how many of BenchBuilder's seven criteria it meets."""

import polars as pl

from schemas.errors import BadInput
from schemas.tables import SIGNALS
from tasks.lookup.facts import Versions, facts
from tasks.tables import Store

CRITERIA = "criteria"
"""The signal that says which of the seven criteria a prompt meets (Li et al. 2024, "From crowdsourced data to
high-quality benchmarks"): a bool column each, null where it could not be told."""


def draw_weights(store: Store, prompts: pl.DataFrame, versions: Versions, quality_weight: float) -> dict[str, float]:
    """document_id -> weight in the draw; empty when all count alike.

    Raises BadInput when quality is asked for and of no prompt known.
    """
    if quality_weight == 0 or prompts.is_empty():
        return {}
    met = criteria_met(store, prompts, versions)
    if met["criteria_met"].null_count() == met.height:
        raise BadInput(
            f"bench.quality_weight {quality_weight}: no prompt has the signal {CRITERIA!r}; "
            "measure it (see `curate doctor`), or set the weight to 0"
        )
    return {document: float(1 + (count or 0)) ** quality_weight for document, count in met.iter_rows()}


def criteria_met(store: Store, prompts: pl.DataFrame, versions: Versions) -> pl.DataFrame:
    """document_id and criteria_met (0 to 7, null where not measured or told) of each row of `prompts`."""
    if CRITERIA not in SIGNALS or CRITERIA not in versions:
        return prompts.select("document_id", criteria_met=pl.lit(None, pl.Int64))
    names = list(SIGNALS[CRITERIA].model_fields)
    known = facts(store, CRITERIA, versions[CRITERIA], names)
    told = pl.any_horizontal(pl.col(names).is_not_null())
    met = pl.when(told).then(pl.sum_horizontal(pl.col(names).cast(pl.Int64)))
    count = known.select("content_id", criteria_met=met)
    return prompts.select("document_id").join(
        count, left_on="document_id", right_on="content_id", how="left", maintain_order="left"
    )
