"""Texts as words, and as short runs of words that can be counted fast."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

DISTINCTIVE_WORDS = 13
"""A text of so many words stands for itself; a shorter one, such as `describe this picture`, says nothing without its
picture. 13 words are the unit of GPT-3's contamination test (Brown et al. 2020, appendix C)."""
RUN_WORDS = 4
"""One word changed in a text of 13 leaves 6 of its 10 runs."""
PIECE_BYTES = 4 * 1024 * 1024
"""Of texts whose words are in memory at a time, about: words take ten times the memory of their text."""
_WORD = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]|[\p{L}\p{M}\p{N}_]+"
"""Where scripts write no blanks, a character is a word."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def words(texts: pl.Series) -> pl.Series:
    """The words of each text, list[str]: lower case, compatible forms as one (NFKC), no punctuation."""
    return texts.str.normalize("NFKC").str.to_lowercase().str.extract_all(_WORD)


def normalised(texts: pl.Series) -> pl.Series:
    """Each text as its words with a blank between: equal for texts that differ in case, blanks and punctuation."""
    joined = [words(some).list.join(" ") for some in pieces(texts)]
    return pl.concat([pl.Series([], dtype=pl.String), *joined])


def pieces(texts: pl.Series) -> Iterator[pl.Series]:
    """Texts that follow each other, of `PIECE_BYTES` in all or a little more."""
    numbers = (texts.str.len_bytes().cast(pl.Int64).cum_sum() // PIECE_BYTES).rle()
    first = 0
    for count in numbers.struct.field("len"):
        yield texts.slice(first, count)
        first += count


def runs(listed: pl.Series) -> pl.DataFrame:
    """Runs of `RUN_WORDS` words of every distinctive text: row UInt32, run UInt64 (a hash of this process).

    `listed` are the words of each text; a run that a text holds twice is there twice.
    """
    lengths = listed.list.len().to_numpy()
    rows = np.flatnonzero(lengths >= DISTINCTIVE_WORDS)
    flat = listed.gather(rows).explode().hash(seed=0).to_numpy()
    owner = np.repeat(rows, lengths[rows]).astype(np.uint32)
    return pl.DataFrame(_windows(flat, owner), schema={"row": pl.UInt32, "run": pl.UInt64})


def _windows(
    words: npt.NDArray[np.uint64], owner: npt.NDArray[np.uint32]
) -> dict[str, npt.NDArray[np.unsignedinteger]]:
    count = max(0, len(words) - RUN_WORDS + 1)
    mixed = np.zeros(count, np.uint64)
    for place in range(RUN_WORDS):
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _FACTOR + words[place : place + count]
    within = owner[:count] == owner[len(owner) - count :]
    return {"row": owner[:count][within], "run": mixed[within]}
