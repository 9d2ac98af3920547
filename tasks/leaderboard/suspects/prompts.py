"""What a prompt or a reason says of its writer: the words it is made of, and whether it asks which model answers."""

from pathlib import Path

import polars as pl

from tasks.runtime.yaml_files import read_yaml

_ASKS: list[str] = read_yaml(Path(__file__).with_suffix(".yaml"))["asks_identity"]
WORDS_MIN = 3
"""Texts of fewer different words are like many others."""


def words_of(text: pl.Expr) -> pl.Expr:
    """The different words of a text in alphabetical order; null for fewer than `WORDS_MIN`.

    Texts that differ in order, case, numbers and punctuation alone are equal.
    """
    words = text.str.to_lowercase().str.extract_all(r"\p{L}+").list.unique().list.sort()
    return pl.when(words.list.len() >= WORDS_MIN).then(words.list.join(" "))


def asks_identity(text: pl.Expr) -> pl.Expr:
    """Whether a text asks which model answers, in one of the languages of `prompts.yaml`."""
    return text.str.contains("(?i)" + "|".join(_ASKS))
