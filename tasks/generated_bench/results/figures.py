"""How a benchmark was made, in numbers: diversity of aspects and descriptions, and alignment scores of images."""

from collections.abc import Sequence
from itertools import product
from statistics import fmean

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.benches.generated import GeneratedAspect
from schemas.benches.generated_results import AlignmentRow, DiversityRow
from tasks.generated_bench.bench_state import BenchState
from tasks.providers.capabilities import TextEmbedder

ALL_LEVELS = "all"
"""Name of the row over all levels."""


def mean_cosine(vectors: npt.NDArray[np.float32]) -> float | None:
    """Mean cosine of all pairs of unit vectors (n, dimension): lower is more diverse. None for fewer than two."""
    count = len(vectors)
    if count < 2:
        return None
    total = float(np.square(vectors.sum(axis=0, dtype=np.float64)).sum())
    return (total - count) / (count * (count - 1))


def diversity_rows(state: BenchState, embedder: TextEmbedder) -> list[DiversityRow]:
    """Diversity of the first n general aspects with the first m fine ones of each, for every n and m.

    As in AutoBench-V's Table 1; there every n and m was asked for anew, here they are parts of one benchmark.
    """
    groups = dict[str, list[GeneratedAspect]]()
    for aspect in state.aspects.values():
        groups.setdefault(aspect.general, []).append(aspect)
    texts = {
        fine_aspect.aspect: f"{fine_aspect.name}. {fine_aspect.introduction}" for fine_aspect in state.aspects.values()
    }
    vectors = dict(zip(texts, np.asarray(embedder.embed_texts(list(texts.values()))), strict=True))
    rows = []
    for general, fine in product(range(1, state.bench.general + 1), range(1, state.bench.fine + 1)):
        chosen = [fine_aspect.aspect for group in list(groups.values())[:general] for fine_aspect in group[:fine]]
        likeness = mean_cosine(np.stack([vectors[number] for number in chosen])) if chosen else None
        rows.append(DiversityRow(general=general, fine=fine, aspects=len(chosen), mean_cosine=likeness))
    return rows


def likeness_by_level(state: BenchState, vectors: npt.NDArray[np.float32]) -> pl.DataFrame:
    """Likeness of the descriptions of each level, and of all in the last row: lower is more diverse.

    Columns: level; groups, the pairs of aspect and level with two descriptions or more; descriptions; mean_cosine, the
    mean over these groups of the mean cosine of their descriptions, null without a group. `vectors`: float32
    (descriptions, dimension), unit vectors in the order of `made.progress`.
    """
    places: dict[tuple[int, str], list[int]] = {}
    for place, item_progress in enumerate(state.progress):
        places.setdefault((item_progress.description.aspect, item_progress.description.level), []).append(place)
    rows = []
    for level in (*state.bench.levels, ALL_LEVELS):
        groups = [group for (_, name), group in places.items() if level in (name, ALL_LEVELS)]
        cosines = [cosine for group in groups if (cosine := mean_cosine(vectors[group])) is not None]
        rows.append((level, len(cosines), sum(map(len, groups)), fmean(cosines) if cosines else None))
    schema = {"level": pl.String, "groups": pl.Int64, "descriptions": pl.Int64, "mean_cosine": pl.Float64}
    return pl.DataFrame(rows, schema, orient="row")


def alignment_rows(state: BenchState) -> list[AlignmentRow]:
    """Distribution of the scores of all checked images, over all, by level and by type of element."""
    checked_images = [
        (item_progress.description.level, a)
        for item_progress in state.progress
        for a in item_progress.alignments.values()
    ]
    rows = [_scores("overall", [alignment.score for _, alignment in checked_images])]
    rows += [
        _scores(f"level:{level}", [a.score for image_level, a in checked_images if image_level == level])
        for level in state.bench.levels
    ]
    by_type = dict[str, list[float]]()
    for _, alignment in checked_images:
        for name in dict.fromkeys(answer.type for answer in alignment.answers):
            by_type.setdefault(name, []).append(fmean(a.right for a in alignment.answers if a.type == name))
    return rows + [_scores(f"type:{name}", shares) for name, shares in sorted(by_type.items())]


def _scores(name: str, scores: Sequence[float]) -> AlignmentRow:
    values = np.asarray(scores, np.float64)
    shares = {
        "under_half": values < 0.5,
        "from_half": (values >= 0.5) & (values < 0.8),
        "from_80": (values >= 0.8) & (values < 1),
        "whole": values == 1,
    }
    means = {
        column: float(figures.mean()) if len(values) else None for column, figures in {"mean": values, **shares}.items()
    }
    return AlignmentRow(slice=name, images=len(values), **means)
