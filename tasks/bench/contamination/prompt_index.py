"""Finds the texts that contain one of a set of prompts: the same words, or most of its runs of four words."""

from collections.abc import Iterator

import numpy as np
import polars as pl

DISTINCTIVE_WORDS = 13
"""Texts with fewer words, such as `describe this image`, are too common to identify a prompt without its image.
GPT-3's contamination test also uses 13 words (Brown et al. 2020, appendix C)."""
RUN_WORDS = 4
"""Words per run. Changing one word in a text of 13 leaves 6 of its 10 runs."""
PIECE_BYTES = 4 * 1024 * 1024
"""Text processed at a time, about: as words it takes ten times the memory."""
_WORD = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]|[\p{L}\p{M}\p{N}_]+"
"""In scripts without spaces, every character is a word."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_FOUND = {"row": pl.UInt32, "prompt": pl.UInt32, "match": pl.String, "overlap": pl.Float64}


def words_of_each(texts: pl.Series) -> pl.Series:
    """The words of each text, list[str]: lower case, NFKC-normalised, without punctuation."""
    return texts.str.normalize("NFKC").str.to_lowercase().str.extract_all(_WORD)


def joined_words(texts: pl.Series) -> pl.Series:
    """Each text's words joined by spaces: equal for texts that differ only in case, spaces and punctuation."""
    joined = [words_of_each(some).list.join(" ") for _, some in _pieces(texts)]
    return pl.concat([pl.Series([], dtype=pl.String), *joined])


class PromptIndex:
    """Index of prompts for exact search: it finds every text above the threshold without comparing all pairs.

    A text matches a prompt with n runs if it holds at least m = ceil(overlap_min * n) of them. Such a text holds at
    least one of any n - m + 1 runs of the prompt, so only the rarest n - m + 1 are looked up; then the shared runs of
    each candidate are counted (Chaudhuri, Ganti and Kaushik, "A primitive operator for similarity joins in data
    cleaning", 2006).
    """

    def __init__(self, prompts: pl.Series, overlap_min: float) -> None:
        listed = words_of_each(prompts)
        said = pl.DataFrame({"text": prompts, "words": listed.list.join(" ")}).with_row_index("prompt")
        self._texts = said.select("prompt", "text")
        self._normalised = said.select("prompt", "words").filter(pl.col("words") != "")
        self._runs = _runs(listed).rename({"row": "prompt"}).unique()
        sizes = self._runs.group_by("prompt").len("size")
        self._sizes = sizes.with_columns(need=(pl.col("size") * overlap_min).ceil().clip(1))
        place = pl.struct("often", "run").rank("ordinal").over("prompt")
        self._rarest = (
            self._runs.with_columns(often=pl.len().over("run"))
            .join(self._sizes, on="prompt")
            .filter(place <= pl.col("size") - pl.col("need") + 1)
            .select("prompt", "run")
        )

    def find(self, texts: pl.Series) -> pl.DataFrame:
        """row, prompt, match and overlap of every text that holds a prompt, sorted by row and prompt.

        match is exact (equal text), normalised (equal words) or near, whichever is the best; overlap is the share of
        the prompt's runs that the text holds, 1 where the words are equal.
        """
        found = [self._find(some).with_columns(pl.col("row") + first) for first, some in _pieces(texts)]
        return pl.concat([pl.DataFrame(schema=_FOUND), *found])

    def find_distinctive(self, texts: pl.Series) -> pl.DataFrame:
        """Like `find`, for prompts of at least 13 words only."""
        return self.find(texts).join(self._sizes, on="prompt", how="semi", maintain_order="left")

    def _find(self, texts: pl.Series) -> pl.DataFrame:
        listed = words_of_each(texts)
        rows = pl.DataFrame({"text": texts, "words": listed.list.join(" ")}).with_row_index("row")
        whole = (("exact", self._texts, "text"), ("normalised", self._normalised, "words"))
        equal = [
            rows.join(prompts, on=column).select("row", "prompt", match=pl.lit(match), overlap=pl.lit(1.0))
            for match, prompts, column in whole
        ]
        best = pl.concat([*equal, self._near(listed)]).unique(["row", "prompt"], keep="first", maintain_order=True)
        return best.sort("row", "prompt")

    def _near(self, listed: pl.Series) -> pl.DataFrame:
        known = _runs(listed).join(self._runs, on="run", how="semi").unique()
        candidates = known.join(self._rarest, on="run").select("row", "prompt").unique()
        counted = (
            candidates.join(self._runs, on="prompt")
            .join(known, on=["row", "run"], how="semi")
            .group_by("row", "prompt")
            .len("shared")
            .join(self._sizes, on="prompt")
            .filter(pl.col("shared") >= pl.col("need"))
        )
        return counted.select("row", "prompt", match=pl.lit("near"), overlap=pl.col("shared") / pl.col("size"))


def _pieces(texts: pl.Series) -> Iterator[tuple[int, pl.Series]]:
    """Consecutive slices of about `PIECE_BYTES`, each with the number of its first row."""
    numbers = (texts.str.len_bytes().cast(pl.Int64).cum_sum() // PIECE_BYTES).rle()
    first = 0
    for count in numbers.struct.field("len"):
        yield first, texts.slice(first, count)
        first += count


def _runs(listed: pl.Series) -> pl.DataFrame:
    """Runs of `RUN_WORDS` words of every text with at least 13 words: row UInt32, run UInt64 (a hash).

    `listed` holds the words of each text. Repeated runs are repeated.
    """
    lengths = listed.list.len().to_numpy()
    rows = np.flatnonzero(lengths >= DISTINCTIVE_WORDS)
    flat = listed.gather(rows).explode().hash(seed=0).to_numpy()
    owner = np.repeat(rows, lengths[rows]).astype(np.uint32)
    count = max(0, len(flat) - RUN_WORDS + 1)
    mixed = np.zeros(count, np.uint64)
    for place in range(RUN_WORDS):
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _FACTOR + flat[place : place + count]
    within = owner[:count] == owner[len(owner) - count :]
    columns = {"row": owner[:count][within], "run": mixed[within]}
    return pl.DataFrame(columns, schema={"row": pl.UInt32, "run": pl.UInt64})
