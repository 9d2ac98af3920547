"""Finds the texts that contain one of a set of prompts: the same words, or most of its runs of four words."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks.runtime.scripts import SPACELESS
from tasks.storage.queries.signals import on_disk, unload

DISTINCTIVE_WORDS = 13
"""Texts with fewer words, such as `describe this image`, are too common to identify a prompt without its image.
GPT-3's contamination test also uses 13 words (Brown et al. 2020, appendix C)."""
RUN_WORDS = 4
"""Words per run. Changing one word in a text of 13 leaves 6 of its 10 runs."""
INDEXED_BYTES = 1024 * 1024
"""Text processed at a time, about: as words it takes ten times the memory."""
_WORD = rf"[{SPACELESS}]|[\p{{L}}\p{{M}}\p{{N}}_]+"
"""In scripts without spaces, every character is a word."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_OFTEN_BITS = 22
_LOOKED_UP = {"prompt": pl.UInt32, "run": pl.UInt64}
_FOUND = {"row": pl.UInt32, "prompt": pl.UInt32, "match": pl.String, "overlap": pl.Float64}


def words_of_each(texts: pl.Series) -> pl.Series:
    """The words of each text, list[str]: lower case, NFKC-normalised, without punctuation."""
    return texts.str.normalize("NFKC").str.to_lowercase().str.extract_all(_WORD)


def joined_words(texts: pl.Series) -> pl.Series:
    """Each text's words joined by spaces: equal for texts that differ only in case, spaces and punctuation."""
    words_of_pieces = [words_of_each(piece).list.join(" ") for _, piece in pieces(texts)]
    return pl.concat([pl.Series([], dtype=pl.String), *words_of_pieces])


class _Piece(NamedTuple):
    """Runs of some prompts, in a temporary file."""

    first: int
    """Number of the first prompt."""
    sizes: npt.NDArray[np.int64]
    """Distinct runs of each prompt; 0 for one of fewer than 13 words."""
    runs: npt.NDArray[np.uint64]
    """Runs of one prompt after the other."""


class RunIndex:
    """Index of prompts of at least 13 words, for exact search without comparing all pairs.

    A text matches a prompt with n runs if it holds at least m = ceil(overlap_min * n) of them. Such a text holds at
    least one of any n - m + 1 runs of the prompt, so only the rarest n - m + 1 are looked up; then the shared runs of
    each candidate are counted (Chaudhuri, Ganti and Kaushik, "A primitive operator for similarity joins in data
    cleaning", 2006). Memory holds the runs that are looked up; files hold all.
    """

    def __init__(self, listed: Iterable[pl.Series], overlap_min: float) -> None:
        """Read the prompts; `listed` holds the words of each, some prompts at a time."""
        self._pieces: list[_Piece] = []
        often, count = np.zeros(1 << _OFTEN_BITS, np.uint32), 0
        for words in listed:
            run_rows = _runs(words)
            runs, sizes = run_rows["run"].to_numpy(), np.bincount(run_rows["row"].to_numpy(), minlength=len(words))
            self._pieces.append(_Piece(count, sizes, on_disk(len(runs), 2).view(np.uint64).reshape(-1)))
            self._pieces[-1].runs[:] = runs
            unload(self._pieces[-1].runs)
            np.add.at(often, _bucket(runs), np.uint32(1))
            count += len(words)
        self._sizes = np.concatenate([np.zeros(0, np.int64), *(piece.sizes for piece in self._pieces)])
        self._need = np.maximum(np.ceil(self._sizes * overlap_min), 1).astype(np.int64)
        self._rarest = pl.concat([pl.DataFrame(schema=_LOOKED_UP), *map(partial(self._rare, often), self._pieces)])
        self._rarest = self._rarest.sort("run")

    def _rare(self, often: npt.NDArray[np.uint32], piece: _Piece) -> pl.DataFrame:
        """The runs of a piece that are looked up: by prompt, those whose hashes are least `often` there."""
        first, sizes, runs = piece
        owner = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((often[_bucket(runs)], owner))
        place = np.arange(len(runs)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rare = order[place <= (sizes - self._need[first : first + len(sizes)])[owner]]
        rare_runs = pl.DataFrame({"prompt": first + owner[rare], "run": runs[rare]}, schema=_LOOKED_UP)
        unload(runs)
        return rare_runs

    def find(self, listed: pl.Series) -> pl.DataFrame:
        """row, prompt and overlap of every text that holds a prompt; `listed` has the words of each text.

        overlap is the share of the prompt's runs that the text holds.
        """
        text_runs, rarest = _runs(listed).sort("run"), self._rarest["run"].to_numpy()
        first, end = (np.searchsorted(rarest, text_runs["run"].to_numpy(), side) for side in ("left", "right"))
        rarest_rows = _spread(first, end - first)
        pairs = {
            "row": np.repeat(text_runs["row"].to_numpy(), end - first),
            "prompt": self._rarest["prompt"].gather(rarest_rows),
        }
        candidates = pl.DataFrame(pairs).unique()
        prompt_runs = candidates.join(self._runs_of(candidates["prompt"].unique().sort().to_numpy()), on="prompt")
        counted = prompt_runs.join(text_runs, on=["row", "run"], how="semi").group_by("row", "prompt").len("shared")
        prompts = counted["prompt"].to_numpy()
        size, need = pl.Series(self._sizes[prompts]), pl.Series(self._need[prompts])
        return counted.select("row", "prompt", overlap=pl.col("shared") / size).filter(counted["shared"] >= need)

    def _runs_of(self, prompts: npt.NDArray[np.uint32]) -> pl.DataFrame:
        """Rows of prompt and run, of some prompts, which are sorted."""
        frames = [pl.DataFrame(schema=_LOOKED_UP)]
        for first, sizes, runs in self._pieces:
            piece_prompts = prompts[slice(*np.searchsorted(prompts, [first, first + len(sizes)]))]
            lengths, starts = sizes[piece_prompts - first], (np.cumsum(sizes) - sizes)[piece_prompts - first]
            of_each = {"prompt": np.repeat(piece_prompts, lengths), "run": runs[_spread(starts, lengths)]}
            frames.append(pl.DataFrame(of_each, schema=_LOOKED_UP))
            unload(runs)
        return pl.concat(frames)


def _spread(starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Numbers from each start on, as many as its length."""
    return np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())


def _bucket(runs: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Where runs are counted: few are counted together, and a count only says which runs are looked up."""
    return (runs >> np.uint64(64 - _OFTEN_BITS)).astype(np.int64)


class PromptIndex:
    """Index of prompts that finds the texts that contain one of them: the same words, or most of its runs."""

    def __init__(self, prompts: pl.Series, overlap_min: float) -> None:
        prompt_rows = pl.DataFrame({"text": prompts, "words": joined_words(prompts)}).with_row_index("prompt")
        self._texts = prompt_rows.select("prompt", "text")
        self._normalised = prompt_rows.select("prompt", "words").filter(pl.col("words") != "")
        self._near = RunIndex((words_of_each(piece) for _, piece in pieces(prompts)), overlap_min)

    def find(self, texts: pl.Series) -> pl.DataFrame:
        """row, prompt, match and overlap of every text that holds a prompt, sorted by row and prompt.

        match is exact (equal text), normalised (equal words) or near, whichever is the best; overlap is the share of
        the prompt's runs that the text holds, 1 where the words are equal.
        """
        matches = [self._find(piece).with_columns(pl.col("row") + first) for first, piece in pieces(texts)]
        return pl.concat([pl.DataFrame(schema=_FOUND), *matches])

    def find_distinctive(self, texts: pl.Series) -> pl.DataFrame:
        """row, prompt and overlap of every text that holds most runs of a prompt of at least 13 words."""
        matches = [self._near.find(words_of_each(piece)).with_columns(pl.col("row") + n) for n, piece in pieces(texts)]
        return pl.concat([pl.DataFrame(schema=_FOUND).drop("match"), *matches]).sort("row", "prompt")

    def _find(self, texts: pl.Series) -> pl.DataFrame:
        words = words_of_each(texts)
        rows = pl.DataFrame({"text": texts, "words": words.list.join(" ")}).with_row_index("row")
        whole = (("exact", self._texts, "text"), ("normalised", self._normalised, "words"))
        equal = [
            rows.join(prompts, on=column).select("row", "prompt", match=pl.lit(match), overlap=pl.lit(1.0))
            for match, prompts, column in whole
        ]
        near = self._near.find(words).select("row", "prompt", match=pl.lit("near"), overlap="overlap")
        return (
            pl.concat([*equal, near]).unique(["row", "prompt"], keep="first", maintain_order=True).sort("row", "prompt")
        )


def pieces(texts: pl.Series) -> Iterator[tuple[int, pl.Series]]:
    """Consecutive slices of about `INDEXED_BYTES`, each with the number of its first row."""
    numbers = (texts.str.len_bytes().cast(pl.Int64).cum_sum() // INDEXED_BYTES).rle()
    first = 0
    for count in numbers.struct.field("len"):
        yield first, texts.slice(first, count)
        first += count


def _runs(listed: pl.Series) -> pl.DataFrame:
    """Runs of `RUN_WORDS` words of every text with at least 13 words, once each: row UInt32, run UInt64 (a hash).

    `listed` holds the words of each text. Rows come in order.
    """
    lengths = listed.list.len().to_numpy()
    rows = np.flatnonzero(lengths >= DISTINCTIVE_WORDS)
    # One element is the hash of one word of a text that is long enough; runs are mixed from these.
    flat = listed.gather(rows).explode().hash(seed=0).to_numpy()
    owner = np.repeat(rows, lengths[rows]).astype(np.uint32)
    count = max(0, len(flat) - RUN_WORDS + 1)
    mixed = np.zeros(count, np.uint64)
    for place in range(RUN_WORDS):
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _FACTOR + flat[place : place + count]
    within = owner[:count] == owner[len(owner) - count :]
    columns = {"row": owner[:count][within], "run": mixed[within]}
    return pl.DataFrame(columns, schema={"row": pl.UInt32, "run": pl.UInt64}).unique().sort("row")
