"""The kept prompts that may be in the benchmark, with weights for the draw, and how well it represents them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.benches.bench import BenchFilter, BenchMeasure
from schemas.errors import BadInput
from schemas.settings import BenchSettings
from schemas.tables import SIGNALS
from tasks.bench.draw import lot
from tasks.runtime.arrays import RowNumbers, Vectors
from tasks.storage.queries.documents import DOCUMENTS_AT_ONCE
from tasks.storage.queries.signals import Versions, on_disk, signal_values, unload
from tasks.storage.tables import Store

CRITERIA_SIGNAL = "criteria"
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

    Besides columns of the table they have `images` (how many), preset_dataset, language and topic, null where unknown.
    """
    pool = BenchPool(conversations, [])
    pool.keep("kept", conversations)
    filters = {
        "single_turn": (bench.single_turn, pl.col("num_turns") == 1),
        "with_image": (bench.needs_image, pl.col("images") > 0),
        "no_preset": (not bench.presets, pl.col("preset_dataset").is_null()),
        f"language_{bench.language}": (bench.language is not None, pl.col("language") == pl.lit(bench.language)),
        "in_a_topic": (True, pl.col("topic") >= 0),
    }
    for name, (is_applied, holds) in filters.items():
        if is_applied:
            pool.keep(name, pool.prompts.filter(holds))
    pool.prompts = pool.prompts.unique("document_id", keep="first", maintain_order=True)
    return pool


def first_of_alike(prompts: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Drop prompts that are alike to an earlier one that stays. `pairs` has document_id and other_id, in any order."""
    rows = prompts.select("document_id", row=pl.int_range(pl.len(), dtype=pl.UInt32))
    ends = pairs.join(rows, on="document_id").drop("document_id")
    ends = ends.join(rows, left_on="other_id", right_on="document_id", suffix="_b").drop("other_id")
    later, earlier = pl.max_horizontal("row", "row_b"), pl.min_horizontal("row", "row_b")
    stays = np.ones(prompts.height, bool)
    for row, before in ends.select(later=later, earlier=earlier).sort("later").iter_rows():
        stays[row] &= not stays[before]
    return prompts.filter(pl.Series(stays))


def capped(prompts: pl.DataFrame, per_user_max: int, seed: int, stay: pl.Series) -> pl.DataFrame:
    """At most `per_user_max` prompts of each user, those of the smallest topics first; null users are not capped.

    `prompts` has asked_id, user_id and topic; those whose asked_id is in `stay` come before all others. Capping before
    the draw leaves as many prompts as any benchmark under the cap can have, so the draw gets its size.
    """
    order = pl.struct(
        ~pl.col("asked_id").is_in(stay.implode()),
        pl.len().over("topic"),
        pl.col("asked_id").map_elements(lambda asked_id: lot(asked_id, seed), return_dtype=pl.String).alias("lot"),
    )
    within = order.rank("ordinal").over("user_id") <= per_user_max
    return prompts.filter(pl.col("user_id").is_null() | within)


def draw_weights(store: Store, prompts: pl.DataFrame, versions: Versions, quality_weight: float) -> dict[str, float]:
    """asked_id -> weight in the draw, (1 + criteria met) ** quality_weight; empty when all weights are equal.

    Criteria that are unmeasured or undecided count as not met. Raises BadInput when `quality_weight` is set and no
    prompt has the signal.
    """
    if quality_weight == 0 or prompts.is_empty():
        return {}
    names = list(SIGNALS[CRITERIA_SIGNAL].model_fields)
    criteria = signal_values(
        store, CRITERIA_SIGNAL, versions.get(CRITERIA_SIGNAL, ""), names, prompts["document_id"].to_list()
    )
    met = criteria.filter(pl.any_horizontal(pl.col(names).is_not_null())).select(
        "content_id", criteria_met=pl.sum_horizontal(pl.col(names).cast(pl.Int64))
    )
    if met.is_empty():
        raise BadInput(
            f"bench.quality_weight {quality_weight}: no prompt has the signal {CRITERIA_SIGNAL!r}; "
            "measure it (see `curate doctor`), or set the weight to 0"
        )
    counts = dict(met.iter_rows())
    both = prompts.select("asked_id", "document_id").iter_rows()
    return {asked_id: float(1 + counts.get(document, 0)) ** quality_weight for asked_id, document in both}


TopicNumbers = npt.NDArray[np.int64]
RANDOM_SAMPLES = 100
POOL_MAX = 2000
"""Most prompts of the pool that distances are measured to; a random sample of larger pools."""


def measures(
    topics: TopicNumbers, vectors_of: Callable[[RowNumbers], Vectors], drawn: RowNumbers, seed: int
) -> list[BenchMeasure]:
    """Every measure of the benchmark and of random samples of the pool; empty when nothing was drawn.

    `topics` int64 (n,) describe the pool; `drawn` are the benchmark's rows. `vectors_of` is asked once, for the sorted
    rows that are measured, and gives their unit vectors, float32 (rows, dimension).
    """
    if not len(drawn):
        return []
    generator = np.random.default_rng(seed)
    samples = [np.sort(generator.choice(len(topics), len(drawn), replace=False)) for _ in range(RANDOM_SAMPLES)]
    others = np.sort(generator.choice(len(topics), min(POOL_MAX, len(topics)), replace=False))
    rows = np.unique(np.concatenate([drawn, others, *samples]))
    measure = _measure(topics, rows, vectors_of(rows), others)
    value, random = measure(drawn), pl.DataFrame([measure(sample) for sample in samples])
    bench_measures = []
    for name in value:
        low, high = np.quantile(random[name].to_numpy(), [0.025, 0.975])
        numbers = {"value": value[name], "random_mean": random[name].to_numpy().mean(), "random_low": low}
        rounded = {key: round(float(number), 6) for key, number in (numbers | {"random_high": high}).items()}
        bench_measures.append(BenchMeasure(measure=name, **rounded, prompts=len(drawn), pool=len(topics)))
    return bench_measures


def _measure(
    topics: TopicNumbers, measured_rows: RowNumbers, vectors: Vectors, others: RowNumbers
) -> Callable[[RowNumbers], dict[str, float]]:
    """Function that gives every measure of some rows; `vectors` belong to `measured_rows`, which are sorted."""
    count = int(topics.max()) + 1
    pool = np.bincount(topics, minlength=count) / len(topics)
    even = (pool > 0) / (pool > 0).sum()
    of_pool, cosines = vectors[np.searchsorted(measured_rows, others)], on_disk(len(measured_rows), len(others))
    for start in range(0, len(measured_rows), DOCUMENTS_AT_ONCE):
        cosines[start : start + DOCUMENTS_AT_ONCE] = vectors[start : start + DOCUMENTS_AT_ONCE] @ of_pool.T
        unload(vectors)
        unload(cosines)
    among_pool = float(_distance(cosines[np.searchsorted(measured_rows, others)]).mean())

    from scipy.spatial.distance import jensenshannon  # slow to load

    def measured(rows: RowNumbers) -> dict[str, float]:
        at = np.searchsorted(measured_rows, rows)
        near, of_topics = cosines[at], np.bincount(topics[rows], minlength=count) / len(rows)
        unload(cosines)
        sample = vectors[at]
        unload(vectors)
        among = _distance(sample @ sample.copy().T).mean()  # an array by its own transpose is rounded otherwise
        return {
            "topic_coverage": float((of_topics > 0).sum() / (pool > 0).sum()),
            "distance_to_even_topics": float(jensenshannon(of_topics, even, base=2)),
            "distance_to_pool_topics": float(jensenshannon(of_topics, pool, base=2)),
            "energy_distance_to_pool": float(2 * _distance(near).mean() - among - among_pool),
            "nearest_cosine": float(near.max(axis=0).mean()),
        }

    return measured


def _distance(cosines: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Euclidean distance of unit vectors with these cosines."""
    return np.sqrt(np.maximum(0.0, 2 - 2 * cosines.astype(np.float64)))
