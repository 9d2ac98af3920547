"""Does a benchmark drawn evenly over topics stand for an arena better than a uniform random one of the same size?

    python -m benchmarks.bench_split

200 simulated arenas. Each has 5,000 prompts in 60 topics whose sizes follow Zipf's law, and 20 models. On a prompt of
topic t model m scores strength[m] + bend[m, t] + noise, normal with standard deviations 1, BEND and 2: a model that is
good in general may be bad at a topic. Topics are not known but found: 10 % of the prompts are outliers, which we never
draw, and 10 % lie in a wrong topic. A benchmark of 500 prompts ranks the models by their mean score on it.

Two references are fair to ask about and differ: `even` ranks models by the mean over topics (every kind of question
counts the same; what such a benchmark is for) and `pool` by the mean over all prompts (popular questions count more;
what a leaderboard of all votes shows). `proportional` is our benchmark with seats by the size of topics, compared with
the second; `reweighted` the even one with every prompt weighed by the share of its found topic, which estimates the
second from the same 500 prompts (post-stratification: Holt and Smith 1979).

Beside it, the search for benchmark questions in outside rows, against sets of 13-grams in Python.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.stats import spearmanr

from benchmarks.timing import compare
from tasks.bench.contamination.prompt_index import PromptIndex
from tasks.bench.draw import draw, proportional_quotas, quotas

ARENAS, PROMPTS, TOPICS, MODELS, SIZE = 200, 5_000, 60, 20, 500
BENDS = (0.25, 0.5, 1.0)
NOISE = 2.0
Numbers = npt.NDArray[np.float64]


def run() -> list[dict[str, Any]]:
    """One row for each strength of topics' bend, then the speed of the search."""
    return [*(simulated(bend) for bend in BENDS), searched()]


def simulated(bend: float, arenas: int = ARENAS) -> dict[str, Any]:
    """Means over arenas; `wins` counts arenas where ours is better than random, `ci95` is of the mean difference."""
    results = [_arena(seed, bend) for seed in range(arenas)]
    names = ("coverage", "coverage_proportional", "even", "pool", "proportional", "reweighted")
    coverage, sized, even, pool, proportional, reweighted = (
        np.array([result[name] for result in results]) for name in names
    )
    row = {
        "bench": f"bench split: {arenas} simulated arenas, bend {bend}",
        "n": SIZE,
        "peer": "uniform random sample",
        "coverage": _means(coverage),
        "coverage_never_less": bool((coverage[:, 0] >= coverage[:, 1]).all()),
        "coverage_proportional": _means(sized) | {"less": int((sized[:, 0] < sized[:, 1]).sum())},
        "spearman_even_topics": _means(even) | _difference(even),
        "spearman_pool": _means(pool) | _difference(pool),
        "spearman_pool_proportional": _means(proportional) | _difference(proportional),
        "spearman_pool_reweighted": _means(reweighted) | _difference(reweighted),
    }
    print(row, flush=True)
    return row


def _arena(seed: int, bend: float) -> dict[str, tuple[float, float]]:
    """Coverage and rank correlations of one arena: (ours, random)."""
    generator = np.random.default_rng(seed)
    share = 1 / np.arange(1, TOPICS + 1)
    topic = generator.choice(TOPICS, PROMPTS, p=share / share.sum())
    found = np.where(generator.random(PROMPTS) < 0.1, generator.permutation(topic), topic)
    found[generator.random(PROMPTS) < 0.1] = -1
    strength = generator.normal(0, 1, MODELS)
    skill = strength[:, None] + generator.normal(0, bend, (MODELS, TOPICS))
    score = skill[:, topic] + generator.normal(0, NOISE, (MODELS, PROMPTS))
    members = {int(t): [str(prompt) for prompt in np.flatnonzero(found == t)] for t in np.unique(found) if t >= 0}
    ours, sized = (
        np.array(sorted(int(prompt) for some in draw(members, SIZE, seed, None, seats).values() for prompt in some))
        for seats in (quotas, proportional_quotas)
    )
    random = generator.choice(PROMPTS, SIZE, replace=False)
    weight = _weights(found, ours)
    there = len(np.unique(topic))
    even, pool = skill[:, np.unique(topic)].mean(axis=1), skill[:, topic].mean(axis=1)
    plain = [score[:, rows].mean(axis=1) for rows in (ours, random, sized)]
    covered = [len(np.unique(topic[rows])) / there for rows in (ours, random, sized)]
    return {
        "coverage": (covered[0], covered[1]),
        "coverage_proportional": (covered[2], covered[1]),
        "even": (_alike(plain[0], even), _alike(plain[1], even)),
        "pool": (_alike(plain[0], pool), _alike(plain[1], pool)),
        "proportional": (_alike(plain[2], pool), _alike(plain[1], pool)),
        "reweighted": (_alike(score[:, ours] @ weight, pool), _alike(plain[1], pool)),
    }


def _weights(found: npt.NDArray[np.int64], ours: npt.NDArray[np.int64]) -> Numbers:
    """Of each drawn prompt: the share of its found topic in the pool, split over the topic's drawn prompts."""
    pool, drawn = np.bincount(found[found >= 0]), np.bincount(found[ours])
    weight = pool[found[ours]] / drawn[found[ours]]
    return np.asarray(weight / weight.sum())


def _alike(scores: Numbers, reference: Numbers) -> float:
    return float(spearmanr(scores, reference).statistic)


def _means(pairs: Numbers) -> dict[str, float]:
    ours, random = pairs.mean(axis=0)
    return {"ours": round(float(ours), 4), "random": round(float(random), 4)}


def _difference(pairs: Numbers) -> dict[str, Any]:
    """Mean difference with its normal 95 % interval, and in how many arenas it is positive."""
    gap = pairs[:, 0] - pairs[:, 1]
    half = 1.96 * gap.std(ddof=1) / np.sqrt(len(gap))
    low, high = (round(float(gap.mean() + side * half), 4) for side in (-1, 1))
    return {"ci95": [low, high], "wins": int((gap > 0).sum())}


def searched(rows: int = 50_000) -> dict[str, Any]:
    """Rows a second are rows / ours_s. Both look for 500 questions of 30 words; the peer finds no changed ones."""
    generator = np.random.default_rng(0)
    vocabulary = np.array([f"word{n}" for n in range(5_000)])
    questions = [" ".join(generator.choice(vocabulary, 30)) for _ in range(500)]
    texts = [" ".join(generator.choice(vocabulary, 60)) for _ in range(rows)]
    for place in range(0, rows, 100):
        texts[place] = f"{questions[place // 100 % 500]} {texts[place]}"
    index, series = PromptIndex(pl.Series(questions), 0.5), pl.Series(texts)

    def ours() -> int:
        return sum(index.find(series[start : start + 10_000]).height for start in range(0, rows, 10_000))

    known = {gram for question in questions for gram in _grams(question)}

    def theirs() -> int:
        return sum(not known.isdisjoint(_grams(text)) for text in texts)

    assert ours() == theirs() == rows // 100
    return compare("bench check: outside rows", rows, ours, "sets of 13-grams in Python (GPT-3, lm-eval)", theirs)


def _grams(text: str) -> set[tuple[str, ...]]:
    said = text.lower().split()
    return {tuple(said[start : start + 13]) for start in range(len(said) - 12)}


if __name__ == "__main__":
    run()
