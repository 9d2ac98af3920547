"""Correlations of columns of scores, each pair over the models that both have."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy.stats import kendalltau, pearsonr, spearmanr

from schemas.agreement import ScoreCorrelation
from tasks.agreement.score_tables import Scores


def correlations(scores: Scores) -> list[ScoreCorrelation]:
    """One row for every pair of columns, in the order of the columns."""
    return [_correlation(a, b, scores) for a, b in combinations(scores, 2)]


def _correlation(a: str, b: str, scores: Scores) -> ScoreCorrelation:
    shared = sorted(scores[a].keys() & scores[b].keys())
    first, second = ([scores[name][model] for model in shared] for name in (a, b))
    if len(shared) < 2 or len(set(first)) < 2 or len(set(second)) < 2:
        return ScoreCorrelation(a=a, b=b, models=len(shared), spearman=None, kendall=None, pearson=None)
    return ScoreCorrelation(
        a=a,
        b=b,
        models=len(shared),
        spearman=float(spearmanr(first, second).statistic),
        kendall=float(kendalltau(first, second).statistic),
        pearson=float(pearsonr(first, second).statistic),
    )


def as_matrix(columns: Sequence[str], rows: Sequence[ScoreCorrelation]) -> npt.NDArray[np.float64]:
    """Spearman of every pair of columns, float64 (columns, columns); 1 on the diagonal, NaN where it is null."""
    place = {name: number for number, name in enumerate(columns)}
    values = np.eye(len(columns))
    for row in rows:
        ends = place[row.a], place[row.b]
        values[ends] = values[ends[::-1]] = np.nan if row.spearman is None else row.spearman
    return values
