"""Selects the kept prompts that may be in the benchmark: filters in order, with counts, and weights for the draw."""

from dataclasses import dataclass

import polars as pl

from schemas.benches.bench import BenchFilter
from schemas.errors import BadInput
from schemas.settings import BenchSettings
from schemas.tables import SIGNALS
from tasks.bench.draw import lot
from tasks.storage.queries.signals import Versions, signal_values
from tasks.storage.tables import Store

CRITERIA = "criteria"
"""Signal with a bool column for each of BenchBuilder's seven criteria (Li et al. 2024, "From crowdsourced data to
high-quality benchmarks"): whether the prompt meets it; null where undecided."""


@dataclass
class BenchPool:
    """The remaining prompts, each with its first conversation, earliest first."""

    prompts: pl.DataFrame
    """Columns of the conversations, among them conversation_id, document_id, prompt_id, topic and user_id."""
    funnel: list[BenchFilter]
    """Number of prompts after each filter."""

    def keep(self, name: str, prompts: pl.DataFrame) -> None:
        """Replace the prompts by those that passed the filter `name`, and count them."""
        self.prompts = prompts
        step = BenchFilter(step=len(self.funnel), filter=name, prompts=prompts["document_id"].n_unique())
        self.funnel.append(step)


def eligible(conversations: pl.DataFrame, bench: BenchSettings) -> BenchPool:
    """Apply the filters that look at one conversation at a time; `conversations` are kept ones, earliest first.

    Besides the columns of the table they have preset_dataset, language and topic, null where unknown.
    """
    pool = BenchPool(conversations, [])
    pool.keep("kept", conversations)
    filters = {
        "single_turn": (bench.single_turn, pl.col("num_turns") == 1),
        "with_image": (bench.needs_image, pl.col("image_ids").list.len() > 0),
        "no_preset": (not bench.presets, pl.col("preset_dataset").is_null()),
        f"language_{bench.language}": (bench.language is not None, pl.col("language") == pl.lit(bench.language)),
        "in_a_topic": (True, pl.col("topic") >= 0),
    }
    for name, (wanted, holds) in filters.items():
        if wanted:
            pool.keep(name, pool.prompts.filter(holds))
    pool.prompts = pool.prompts.unique("document_id", keep="first", maintain_order=True)
    return pool


def first_of_alike(prompts: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Drop prompts that are alike to an earlier one that stays. `pairs` has document_id and other_id, in any order."""
    beside: dict[str, list[str]] = {}
    for a, b in pairs.select("document_id", "other_id").iter_rows():
        beside.setdefault(a, []).append(b)
        beside.setdefault(b, []).append(a)
    stays: dict[str, bool] = {}
    for document in prompts["document_id"]:
        stays[document] = not any(stays.get(other, False) for other in beside.get(document, ()))
    return prompts.filter(pl.Series(stays.values(), dtype=pl.Boolean))


def capped(prompts: pl.DataFrame, per_user_max: int, seed: int) -> pl.DataFrame:
    """At most `per_user_max` prompts of each user, those of the smallest topics first; null users are not capped.

    Capping before the draw leaves as many prompts as any benchmark under the cap can have, so the draw gets its size.
    """
    order = pl.struct(
        pl.len().over("topic"),
        pl.col("document_id").map_elements(lambda d: lot(d, seed), return_dtype=pl.String).alias("lot"),
    )
    within = order.rank("ordinal").over("user_id") <= per_user_max
    return prompts.filter(pl.col("user_id").is_null() | within)


def draw_weights(store: Store, prompts: pl.DataFrame, versions: Versions, quality_weight: float) -> dict[str, float]:
    """document_id -> weight in the draw, (1 + criteria met) ** quality_weight; empty when all weights are equal.

    Criteria that are unmeasured or undecided count as not met. Raises BadInput when `quality_weight` is set and no
    prompt has the signal.
    """
    if quality_weight == 0 or prompts.is_empty():
        return {}
    names = list(SIGNALS[CRITERIA].model_fields)
    known = signal_values(store, CRITERIA, versions.get(CRITERIA, ""), names, prompts["document_id"].to_list())
    met = known.filter(pl.any_horizontal(pl.col(names).is_not_null())).select(
        "content_id", criteria_met=pl.sum_horizontal(pl.col(names).cast(pl.Int64))
    )
    if met.is_empty():
        raise BadInput(
            f"bench.quality_weight {quality_weight}: no prompt has the signal {CRITERIA!r}; "
            "measure it (see `curate doctor`), or set the weight to 0"
        )
    counts = dict(met.iter_rows())
    return {document: float(1 + counts.get(document, 0)) ** quality_weight for document in prompts["document_id"]}
