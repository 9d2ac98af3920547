"""Near-duplicate prompts: each is matched to one earlier prompt that shares most of its character 5-grams.

MinHash LSH (Broder 1997) proposes candidates; the Jaccard index of each is then computed exactly, so there are no wrong
matches. A pair at the limit is found with a probability of at least 0.999. Signatures are seeded: the same prompts give
the same table.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl
from rensa import RMinHash, RMinHashLSH

from schemas.items.decision import NearPrompt
from tasks.storage.tables import frame_schema

GRAM = 5
"""Characters of an n-gram. Shorter ones occur in almost every text."""
PERMUTATIONS, SEED = 128, 1
RECALL_MIN = 0.999
"""Minimum probability that a pair at the limit becomes a candidate."""
ESTIMATE_MARGIN = 0.2
"""How far below the limit the estimated Jaccard index of a candidate may be: at least 5 standard deviations."""
SETS_KEPT = 10_000
"""Number of n-gram sets that are cached."""
_ROUNDING = 1e-9
_WITHOUT_BLANKS = r"([\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}])"
"""Scripts written without spaces. Their characters are doubled, because each means as much as several letters."""
_PADDING = "  "
_OUTSIDE_WORDS = r"[^\p{L}\p{M}\p{N}]+"


def near_prompts(conversations: pl.DataFrame, jaccard_min: float) -> pl.DataFrame:
    """The `near_prompts` table: conversations whose prompt is a near-duplicate of an earlier one.

    A prompt is matched to the most similar earlier representative, or becomes one itself; there are no chains.
    """
    asked = conversations.sort("tstamp", "conversation_id").select("conversation_id", "prompt_id", "turns")
    first = asked.unique("prompt_id", keep="first", maintain_order=True)
    matches, jaccards = near_texts(_prompts(first), jaccard_min)
    tied = np.flatnonzero(matches >= 0)
    of_prompt = pl.DataFrame(
        {
            "prompt_id": first["prompt_id"].gather(tied),
            "conversation_b": first["conversation_id"].gather(matches[tied]),
            "jaccard": jaccards[tied],
        }
    )
    found = asked.join(of_prompt, on="prompt_id").rename({"conversation_id": "conversation_a"})
    return found.select(pl.col(name).cast(kind) for name, kind in frame_schema(NearPrompt).items())


def _prompts(conversations: pl.DataFrame) -> pl.Series:
    """All user messages of each conversation, joined by blank lines."""
    turn = pl.element().struct
    said = pl.col("turns").list.eval(pl.element().filter(turn.field("role") == "user").struct.field("content"))
    return conversations.select(said.list.join("\n\n")).to_series()


def near_texts(texts: pl.Series, jaccard_min: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The row of the representative that each text is matched to, -1 for none, and their Jaccard index.

    Earlier rows become representatives first. A text without letters and digits is never matched.

    Returns:
        int64 (n,) and float32 (n,), 0 to 1.
    """
    padded = _padded(texts)
    signatures = RMinHash.from_token_sets((_grams(text) for text in padded), PERMUTATIONS, SEED)
    index = RMinHashLSH(jaccard_min, PERMUTATIONS, _bands(jaccard_min))
    grams_of = lru_cache(SETS_KEPT)(lambda row: _grams(padded[row]))
    matches, jaccards = np.full(len(texts), -1, np.int64), np.zeros(len(texts), np.float32)
    for row, signature in enumerate(signatures):
        if not padded[row]:
            continue
        likely = [r for r in index.query(signature) if signature.jaccard(signatures[r]) > jaccard_min - ESTIMATE_MARGIN]
        own = _grams(padded[row])
        jaccard, negative_row = max(((_jaccard(own, grams_of(r)), -r) for r in likely), default=(0.0, 0))
        if likely and jaccard >= jaccard_min - _ROUNDING:
            matches[row], jaccards[row] = -negative_row, jaccard
        else:
            index.insert(row, signature)
    return matches, jaccards


def _bands(jaccard_min: float) -> int:
    """The fewest bands of the signature that make a pair at the limit a candidate with probability RECALL_MIN."""
    for bands in (1, 2, 4, 8, 16, 32, 64):
        if 1 - (1 - jaccard_min ** (PERMUTATIONS // bands)) ** bands >= RECALL_MIN:
            return bands
    return PERMUTATIONS


def _padded(texts: pl.Series) -> list[str]:
    """The texts in lower case without punctuation, padded with spaces; empty if nothing is left."""
    plain = texts.str.normalize("NFKC").str.to_lowercase().str.replace_all(_OUTSIDE_WORDS, " ").str.strip_chars()
    spread = plain.str.replace_all(_WITHOUT_BLANKS, "${1}${1}")
    return spread.str.replace(r"^(.+)$", f"{_PADDING}${{1}}{_PADDING}").to_list()


def _grams(text: str) -> set[str]:
    return {text[start : start + GRAM] for start in range(len(text) - GRAM + 1)}


def _jaccard(one: set[str], other: set[str]) -> float:
    both = len(one & other)
    return both / (len(one) + len(other) - both)
