"""Words that prompts and reasons are made of, and prompts that ask which model answers."""

from pathlib import Path

import polars as pl

from tasks.runtime.untrusted import read_yaml

_ASKS: list[str] = read_yaml(Path(__file__).with_suffix(".yaml"))["asks_identity"]
WORDS_MIN = 3
"""Texts of fewer different words are like many others."""


def sorted_words(text: pl.Expr) -> pl.Expr:
    """A hash of the different words of a text, uint64; null for fewer than `WORDS_MIN`.

    Texts that differ in order, case, numbers and punctuation alone are equal.
    """
    words = text.str.to_lowercase().str.extract_all(r"\p{L}+").list.unique().list.sort()
    return pl.when(words.list.len() >= WORDS_MIN).then(words.list.join(" ").hash())


def asks_identity(text: pl.Expr) -> pl.Expr:
    """Whether a text asks which model answers, in one of the languages of `prompts.yaml`."""
    return text.str.contains("(?i)" + "|".join(_ASKS))


def wording(prompt: pl.Series | None, reason: pl.Series | None) -> list[pl.Series]:
    """Columns that `suspects` uses: prompt_words and asks_identity of prompts, reason_words of reasons; no text."""
    columns = [] if prompt is None else [sorted_words(pl.lit(prompt)).alias("prompt_words")]
    columns += [] if prompt is None else [asks_identity(pl.lit(prompt)).alias("asks_identity")]
    columns += [] if reason is None else [sorted_words(pl.lit(reason)).alias("reason_words")]
    return [pl.select(column).to_series() for column in columns]
