"""Prompts that were asked before in nearly the same letters: our set-similarity join against a sparse product."""

import time
from collections.abc import Callable
from itertools import pairwise
from math import log
from typing import Any

import numpy as np
import polars as pl
from sklearn.feature_extraction.text import CountVectorizer

from benchmarks.timing import compare
from tasks.decide.near_prompts import near_texts

JACCARD_MIN = 0.7
SMALL = 4_000
LARGE = (30_000, 100_000, 300_000)
WORDS = 20_000


def drawn_prompts(n: int, seed: int = 0) -> pl.Series:
    """Prompts of 3 to 400 words, 28 on average, with the frequencies of a language; one in ten is another, changed."""
    generator = np.random.default_rng(seed)
    letters, chance = np.array(list("etaoinshrdlucmfwypvbgkjqxz")), 1 / np.arange(1, 27) ** 0.7
    spelt = [generator.choice(letters, generator.integers(2, 10), p=chance / chance.sum()) for _ in range(WORDS)]
    words = np.array(["".join(each) for each in spelt])
    lengths = np.minimum(generator.lognormal(2.7, 0.8, n).astype(np.int64) + 3, 400)
    said = np.split(words[np.minimum(generator.zipf(1.25, lengths.sum()), WORDS) - 1], np.cumsum(lengths)[:-1])
    for row in range(0, n, 10):
        said[row] = said[generator.integers(n)].copy()
        said[row][generator.integers(len(said[row]))] = "zebra"
    return pl.Series([" ".join(each) for each in said])


def skewed_prompts(n: int) -> pl.Series:
    """The same, but half are one of 20 long templates with three words of their own, and a fifth have one to three."""
    generator, said = np.random.default_rng(1), drawn_prompts(n).to_list()
    templates = drawn_prompts(20, seed=2).to_list()
    for row in range(0, n, 2):
        template = templates[generator.integers(len(templates))]
        said[row] = f"{template} {' '.join(said[row].split()[:3])}"
    for row in range(1, n, 5):
        said[row] = " ".join(said[row].split()[: generator.integers(1, 4)])
    return pl.Series(said)


def product_pairs(texts: pl.Series) -> int:
    """Pairs of texts that alike, by multiplying the matrix of who holds which run with its transpose."""
    held = CountVectorizer(analyzer="char", ngram_range=(5, 5), binary=True, dtype=np.int32).fit_transform(
        f"  {text}  " for text in texts
    )
    sizes = np.asarray(held.sum(axis=1)).ravel()
    both = (held @ held.T).tocoo()
    return int((both.data >= JACCARD_MIN * (sizes[both.row] + sizes[both.col] - both.data))[both.row < both.col].sum())


def run() -> list[dict[str, Any]]:
    """CPU seconds side by side at the size the product can do; then how ours grow with the number of prompts."""
    small = drawn_prompts(SMALL)
    tied = int((near_texts(small, JACCARD_MIN)[0] >= 0).sum())
    row = compare(
        "near-same prompts",
        SMALL,
        lambda: near_texts(small, JACCARD_MIN),
        "scikit-learn runs of 5, scipy sparse product",
        lambda: product_pairs(small),
        tied=tied,
        pairs=product_pairs(small),
    )
    return [row, _growth("drawn", drawn_prompts), _growth("skewed", skewed_prompts)]


def _growth(name: str, draw: Callable[[int], pl.Series]) -> dict[str, Any]:
    seconds = []
    for n in LARGE:
        texts = draw(n)
        started = time.process_time()
        tied = int((near_texts(texts, JACCARD_MIN)[0] >= 0).sum())
        seconds.append(round(time.process_time() - started, 2))
        print(f"near-same prompts, {name}, {n:,}: {seconds[-1]} CPU seconds, {tied:,} tied", flush=True)
    exponents = [round(log(b / a) / log(m / n), 2) for (n, a), (m, b) in pairwise(zip(LARGE, seconds, strict=True))]
    print(f"exponents: {exponents}")
    return {
        "bench": f"near-same prompts: growth, {name}",
        "n": LARGE[-1],
        "ours_s": seconds[-1],
        "exponents": exponents,
    }


if __name__ == "__main__":
    run()
