"""How many changed copies of real prompts are found to be nearly the same, and which prompts wrongly.

PYTHONPATH=. python -m benchmarks.near_prompts_quality FILE.jsonl…, each line with `prompt`, `instruction` or `turns`.
"""

import json
import random
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import polars as pl

from tasks.decide.near_prompts import near_texts

JACCARD_MIN = 0.7
SHORT, LONG = 40, 150
"""Characters: prompts are shown in three groups by length."""


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


def prompts_of(files: Iterable[Path]) -> list[str]:
    """The distinct prompts of some JSON lines."""
    rows = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    found = [row.get("prompt") or row.get("instruction") or row["turns"][0] for row in rows]
    return [text for text in dict.fromkeys(found) if len(text.split()) > 1]


def _share(texts: list[str], change: Callable[[str, random.Random], str]) -> str:
    chance = random.Random(0)
    hits = [int(near_texts(pl.Series([text, change(text, chance)]), JACCARD_MIN)[0][1]) == 0 for text in texts]
    return f"{sum(hits) / max(1, len(hits)):.2f}"


def run(files: Iterable[Path]) -> None:
    """Print the shares, and every pair of different prompts that is tied."""
    texts = prompts_of(files)
    groups = [
        [text for text in texts if low <= len(text) < high] for low, high in ((0, SHORT), (SHORT, LONG), (LONG, 10**9))
    ]
    print(f"prompts under {SHORT}, under {LONG} and more characters: {[len(group) for group in groups]}")
    for name, change in CHANGES.items():
        print(f"{name}: {' | '.join(_share(group, change) for group in groups)}")
    twins, jaccards = near_texts(pl.Series(texts), JACCARD_MIN)
    for row, twin in enumerate(twins):
        if twin >= 0:
            print(f"tied, {jaccards[row]:.2f}: {texts[row][:90]!r} and {texts[twin][:90]!r}")
    print(f"{(twins >= 0).sum()} of {len(texts)} different prompts are tied to another")


if __name__ == "__main__":
    run(Path(name) for name in sys.argv[1:])
