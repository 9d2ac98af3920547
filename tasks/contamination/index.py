"""Which of many texts hold one of a set of prompts: the same words, or most of its runs of words."""

import numpy as np
import polars as pl

from tasks.contamination.words import pieces, runs, words

_FOUND = {"row": pl.UInt32, "prompt": pl.UInt32, "match": pl.String, "overlap": pl.Float64}


class PromptIndex:
    """Prompts that are looked for. Exact: nothing above the threshold is missed, and nothing is compared to all.

    Of a prompt with n runs, at least m = ceil(overlap_min * n) must be in a text. So one of any n - m + 1 is: looking
    up the rarest ones proposes few pairs, and these are counted (Chaudhuri, Ganti and Kaushik, "A primitive operator
    for similarity joins in data cleaning", 2006).
    """

    def __init__(self, prompts: pl.Series, overlap_min: float) -> None:
        self._overlap_min = overlap_min
        self._texts = pl.DataFrame({"text": prompts, "prompt": np.arange(len(prompts), dtype=np.uint32)})
        listed = words(prompts)
        self._normalised = self._texts.with_columns(listed.list.join(" ").alias("words")).filter(pl.col("words") != "")
        self._runs = runs(listed).rename({"row": "prompt"}).unique()
        sizes = self._runs.group_by("prompt").len("size")
        self._sizes = sizes.with_columns(need=(pl.col("size") * overlap_min).ceil().clip(1))
        self._rarest = self._rare_runs()

    def _rare_runs(self) -> pl.DataFrame:
        place = pl.struct("often", "run").rank("ordinal").over("prompt")
        return (
            self._runs.with_columns(often=pl.len().over("run"))
            .join(self._sizes, on="prompt")
            .filter(place <= pl.col("size") - pl.col("need") + 1)
            .select("prompt", "run")
        )

    def find(self, texts: pl.Series) -> pl.DataFrame:
        """row, prompt, match and overlap of every text that holds a prompt, by row and prompt; the best match of each.

        match is exact (equal text), normalised (equal words) or near; overlap the share of the prompt's runs in the
        text, 1 where their words are equal. Memory grows with the number of texts.
        """
        rows = pl.DataFrame({"text": texts, "row": np.arange(len(texts), dtype=np.uint32)})
        listed = words(texts)
        said = rows.select("row", words=listed.list.join(" "))
        found = [
            rows.join(self._texts, on="text").select("row", "prompt", match=pl.lit("exact"), overlap=pl.lit(1.0)),
            said.join(self._normalised, on="words").select(
                "row", "prompt", match=pl.lit("normalised"), overlap=pl.lit(1.0)
            ),
            self._near(listed),
        ]
        best = pl.concat([pl.DataFrame(schema=_FOUND), *found]).unique(
            ["row", "prompt"], keep="first", maintain_order=True
        )
        return best.sort("row", "prompt")

    def find_distinctive(self, texts: pl.Series) -> pl.DataFrame:
        """row, prompt and overlap of every text that holds a prompt of at least 13 words, by row and prompt."""
        first, found = 0, [pl.DataFrame(schema=_FOUND)]
        for some in pieces(texts):
            found.append(self._near(words(some)).with_columns(pl.col("row") + first))
            first += len(some)
        return pl.concat(found).drop("match").sort("row", "prompt")

    def _near(self, listed: pl.Series) -> pl.DataFrame:
        there = runs(listed).join(self._runs, on="run", how="semi").unique()
        proposed = there.join(self._rarest, on="run").select("row", "prompt").unique()
        counted = (
            proposed.join(self._runs, on="prompt")
            .join(there, on=["row", "run"], how="semi")
            .group_by("row", "prompt")
            .len("shared")
            .join(self._sizes, on="prompt")
            .filter(pl.col("shared") >= pl.col("need"))
        )
        return counted.select("row", "prompt", match=pl.lit("near"), overlap=pl.col("shared") / pl.col("size"))
