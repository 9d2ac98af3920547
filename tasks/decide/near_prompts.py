"""Prompts that are nearly the same: each is tied to one earlier prompt that shares most of its character runs.

Likeness is the Jaccard index of the sets of five neighbouring characters: the share of all runs that both have. It
lets a word or a typo differ. All representatives within the limit are found.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.decision import NearPrompt
from tasks.decide.near_prompts_kernel import grams, leaders, ranked
from tasks.tables import frame_schema

TEXTS_AT_ONCE = 10_000
BUCKET_BITS = (8, 22)
"""Fewest and most bits of the table that counts how rare a run is; as many buckets as runs, within that."""
_WITHOUT_BLANKS = r"([\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}])"
"""A character of these scripts says as much as several letters, so it stands there twice."""
_PADDING = "  "
_OUTSIDE_WORDS = r"[^\p{L}\p{M}\p{N}]+"


def near_prompts(conversations: pl.DataFrame, jaccard_min: float) -> pl.DataFrame:
    """The `near_prompts` table of some conversations: those whose prompt is nearly that of an earlier one.

    A prompt is tied to the most similar earlier representative, or becomes one: likeness is not handed on.
    """
    asked = conversations.sort("tstamp", "conversation_id").select("conversation_id", "prompt_id", "turns")
    first = asked.unique("prompt_id", keep="first", maintain_order=True)
    twins, jaccards = near_texts(_prompts(first), jaccard_min)
    tied = np.flatnonzero(twins >= 0)
    of_prompt = pl.DataFrame(
        {
            "prompt_id": first["prompt_id"].gather(tied),
            "conversation_b": first["conversation_id"].gather(twins[tied]),
            "jaccard": jaccards[tied],
        }
    )
    found = asked.join(of_prompt, on="prompt_id").rename({"conversation_id": "conversation_a"})
    return found.select(pl.col(name).cast(kind) for name, kind in frame_schema(NearPrompt).items())


def _prompts(conversations: pl.DataFrame) -> pl.Series:
    """What the user said, turn after turn."""
    turn = pl.element().struct
    said = pl.col("turns").list.eval(pl.element().filter(turn.field("role") == "user").struct.field("content"))
    return conversations.select(said.list.join("\n\n")).to_series()


def near_texts(texts: pl.Series, jaccard_min: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """For each text the row of the representative it is tied to, -1 for representatives, and how like they are.

    Rows come in order of rank. A text without letters and digits is tied to nothing.

    Returns:
        int64 (n,) and float32 (n,), 0 to 1.
    """
    if texts.is_empty():
        return np.empty(0, np.int64), np.empty(0, np.float32)
    parts = [_grams(texts[start : start + TEXTS_AT_ONCE]) for start in range(0, len(texts), TEXTS_AT_ONCE)]
    keys = np.concatenate([found for found, _ in parts])
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate([counts for _, counts in parts]))])
    bits = min(max(len(keys).bit_length(), BUCKET_BITS[0]), BUCKET_BITS[1])
    ranked(keys, starts, bits)
    return leaders(keys, starts, bits, jaccard_min)


def _grams(texts: pl.Series) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """The distinct runs of each text, one text after the other, and how many each has."""
    plain = texts.str.normalize("NFKC").str.to_lowercase().str.replace_all(_OUTSIDE_WORDS, " ").str.strip_chars()
    spread = plain.str.replace_all(_WITHOUT_BLANKS, "${1}${1}")
    padded = spread.str.replace(r"^(.+)$", f"{_PADDING}${{1}}{_PADDING}")
    characters = np.frombuffer("".join(padded).encode("utf-32-le"), np.uint32)
    return grams(characters, padded.str.len_chars().to_numpy().astype(np.int64))
