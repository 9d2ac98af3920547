"""Personal data with a form in messages: by hints first, as `verify` and screening search, and by every pattern.

The texts are those of benchmarks/release_store.py, and every fiftieth holds something.
`python -m benchmarks.personal_data`
"""

from typing import Any

import numpy as np
import polars as pl

from benchmarks.release_store import drawn_messages
from benchmarks.timing import compare
from tasks.providers.embedded.pii_patterns import find_patterns, find_patterns_in

MESSAGES, MEAN_CHARACTERS = 1_500, 600
_HELD = ("mail a.b@example.com", "call +49 30 901820", "at 203.0.113.7", "on 2024-09-18", "std::map, 12:30:45", "1.2.3")
"""Some are personal data, some only look so."""


def run() -> list[dict[str, Any]]:
    """One row; raises AssertionError when the findings differ."""
    where = np.random.default_rng(0).integers(0, MESSAGES, MESSAGES // 50)
    texts = drawn_messages(MESSAGES, MEAN_CHARACTERS)
    for number, place in enumerate(where.tolist()):
        texts[place] += f" {_HELD[number % len(_HELD)]} "
    plain = {text: spans for text in texts if (spans := list(find_patterns(text)))}
    assert find_patterns_in(pl.Series(texts)) == plain
    peer = "every pattern on every text"
    about = {"characters": sum(map(len, texts))}
    return [
        compare(
            "personal data with a form, CPU s",
            MESSAGES,
            lambda: find_patterns_in(pl.Series(texts)),
            peer,
            lambda: [list(find_patterns(text)) for text in texts],
            **about,
        )
    ]


if __name__ == "__main__":
    run()
