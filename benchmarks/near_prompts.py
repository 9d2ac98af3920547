"""Near-duplicate prompts: speed, and how many are found.

`python -m benchmarks.near_prompts [FILE.jsonl…]`: with FILEs, whose lines have `prompt`, `instruction` or `turns`,
also the share of changed copies of these prompts that is found, for each kind of change.
"""

import json
import random
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.feature_extraction.text import CountVectorizer

from benchmarks.timing import compare
from tasks.dedup.near_prompts import near_texts

JACCARD_MIN = 0.7
SMALL, LARGE = 4_000, (30_000, 100_000)
WORDS = 20_000
SHORT, LONG = 40, 150
"""Characters: prompts of FILEs are shown in three groups by length."""


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


def close_pairs(texts: pl.Series) -> set[tuple[int, int]]:
    """All pairs i < j within the limit, by multiplying the matrix of who holds which 5-gram with its transpose."""
    held = CountVectorizer(analyzer=_grams, binary=True, dtype=np.int32).fit_transform(f"  {text}  " for text in texts)
    sizes = np.asarray(held.sum(axis=1)).ravel()
    both = (held @ held.T).tocoo()
    near = both.data >= JACCARD_MIN * (sizes[both.row] + sizes[both.col] - both.data) - 1e-6
    return {(i, j) for i, j in zip(both.row[near].tolist(), both.col[near].tolist(), strict=True) if i < j}


def _grams(text: str) -> list[str]:
    return [text[start : start + 5] for start in range(len(text) - 4)]


def exact_ties(n: int, pairs: set[tuple[int, int]]) -> set[int]:
    """Rows that an exact search matches to an earlier representative."""
    earlier: dict[int, list[int]] = {}
    for i, j in pairs:
        earlier.setdefault(j, []).append(i)
    tied: set[int] = set()
    for row in range(n):
        if any(other not in tied for other in earlier.get(row, ())):
            tied.add(row)
    return tied


def run() -> list[dict[str, Any]]:
    """CPU seconds beside an exact search at the size it can do, with the share it finds; then larger sizes."""
    small = drawn_prompts(SMALL)
    exact = exact_ties(SMALL, close_pairs(small))
    found = set(np.flatnonzero(near_texts(small, JACCARD_MIN)[0] >= 0).tolist())
    row = compare(
        "near-same prompts",
        SMALL,
        lambda: near_texts(small, JACCARD_MIN),
        "scikit-learn 5-grams, scipy sparse product",
        lambda: close_pairs(small),
        tied=len(exact),
        found=len(found & exact),
        wrong=len(found - exact),
    )
    return [row, *(_large(n) for n in LARGE)]


def _large(n: int) -> dict[str, Any]:
    texts = drawn_prompts(n)
    started = time.process_time()
    tied = int((near_texts(texts, JACCARD_MIN)[0] >= 0).sum())
    seconds = round(time.process_time() - started, 2)
    print(f"near-same prompts, {n:,}: {seconds} CPU seconds, {tied:,} tied", flush=True)
    return {"bench": "near-same prompts, growth", "n": n, "ours_s": seconds, "tied": tied}


def _typo(text: str, chance: random.Random) -> str:
    place = chance.randrange(len(text))
    return text[:place] + chance.choice("abcdefghijklmnopqrstuvwxyz") + text[place + 1 :]


def _without_a_word(text: str, chance: random.Random) -> str:
    words = text.split()
    del words[chance.randrange(len(words))]
    return " ".join(words)


def _with_a_word(text: str, chance: random.Random) -> str:
    words = text.split()
    words.insert(chance.randrange(len(words) + 1), chance.choice(("please", "briefly", "again", "exactly")))
    return " ".join(words)


CHANGES: dict[str, Callable[[str, random.Random], str]] = {
    "case and punctuation": lambda text, _: text.upper().replace(",", "").replace(".", " !"),
    "a typo": _typo,
    "two typos": lambda text, chance: _typo(_typo(text, chance), chance),
    "a word more": _with_a_word,
    "a word less": _without_a_word,
    "another word": lambda text, chance: _with_a_word(_without_a_word(text, chance), chance),
    "the first half": lambda text, _: text[: len(text) // 2],
}


def _share(texts: list[str], change: Callable[[str, random.Random], str]) -> str:
    chance = random.Random(0)
    hits = [int(near_texts(pl.Series([text, change(text, chance)]), JACCARD_MIN)[0][1]) == 0 for text in texts]
    return f"{sum(hits) / max(1, len(hits)):.2f}"


def changed_copies(files: Iterable[Path]) -> None:
    """Print the share of changed copies that is found, and how many of the prompts themselves are tied."""
    rows = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    asked = [row.get("prompt") or row.get("instruction") or row["turns"][0] for row in rows]
    texts = [text for text in dict.fromkeys(asked) if len(text.split()) > 1]
    groups = [[t for t in texts if low <= len(t) < high] for low, high in ((0, SHORT), (SHORT, LONG), (LONG, 10**9))]
    print(f"prompts under {SHORT}, under {LONG} and more characters: {[len(group) for group in groups]}")
    for name, change in CHANGES.items():
        print(f"{name}: {' | '.join(_share(group, change) for group in groups)}")
    tied = (near_texts(pl.Series(texts), JACCARD_MIN)[0] >= 0).sum()
    print(f"{tied} of {len(texts)} different prompts are tied to another")


if __name__ == "__main__":
    run()
    if sys.argv[1:]:
        changed_copies(Path(name) for name in sys.argv[1:])
