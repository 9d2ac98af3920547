"""Reads files of labels: CSV, JSON Lines or Parquet with a label for every item, and battle tables with their votes.

Votes in any published spelling become left, right, tie and both bad. Other labels stay as they are; numbers are written
in one way, so that 1 and 1.0 are the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from schemas.errors import BadInput, known_values
from schemas.items.conversation import Winner
from tasks.leaderboard.battle_files import read_table
from tasks.leaderboard.votes import OUR_WINNERS
from tasks.runtime.untrusted import one_line, read_yaml

_NAMES: dict[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml"))
_COLUMNS: dict[str, list[str]] = _NAMES["columns"]
VOTE_NAMES = dict(zip(Winner, ("left", "right", "tie", "both bad"), strict=True))
"""Winner of a battle -> the vote's name here, in the order in which votes are numbered."""
_SPELLINGS = {label.lower(): VOTE_NAMES[Winner(winner)] for label, winner in OUR_WINNERS.items()}
_SPELLINGS |= {spelling: vote for vote, spellings in _NAMES["votes"].items() for spelling in spellings}
LABELS_MAX = 50
"""More different labels than this are no names of a few kinds."""


@dataclass(frozen=True)
class Labels:
    """The labels of one file."""

    name: str
    """Name of the file in tables."""
    rows: pl.DataFrame
    """item, rater (null when not named) and label, without rows that have no label."""
    no_verdict: int = 0
    """Rows without a label."""

    @property
    def raters(self) -> int | None:
        """Different raters; None when they are not named."""
        named = self.rows["rater"].drop_nulls()
        return named.n_unique() if len(named) else None

    @property
    def are_votes(self) -> bool:
        """Whether every label is a vote."""
        return set(self.rows["label"].unique()) <= set(VOTE_NAMES.values())


def read_labels(path: Path, name: str) -> Labels:
    """The labels of a file, or of a release's or folder's battle table; `name` is what it is called in tables.

    Raises BadInput for a file without items and labels, and for an item that one rater labels twice.
    """
    folder = path / "battle" if (path / "manifest.json").is_file() else path
    raw = read_table(folder, {name for names in _COLUMNS.values() for name in names})
    rows = in_our_columns(raw, _COLUMNS, f"{str(path)!r}")
    rows = rows.select("item", "rater" if "rater" in rows.columns else pl.lit(None, pl.String).alias("rater"), "label")
    if rows["item"].null_count():
        raise BadInput(f"{str(path)!r}: {rows['item'].null_count():,} rows have no item; every label is on an item")
    return labels_of(name, rows, f"{str(path)!r}")


def in_our_columns(raw: pl.DataFrame, our_names: Mapping[str, Sequence[str]], where: str) -> pl.DataFrame:
    """The columns of a table as texts, under our names. Raises BadInput where one but `rater` is missing.

    `our_names`: our name -> its names in files; the first one present is used. `where` names the table in errors.
    """
    columns = {ours: next((name for name in names if name in raw.columns), None) for ours, names in our_names.items()}
    if lacking := [name for name in our_names if name != "rater" and columns[name] is None]:
        raise BadInput(
            f"{where} lacks a column {' and a column '.join(lacking)}; its columns are {', '.join(raw.columns)}"
        )
    return raw.select(pl.col(source).cast(pl.String).alias(name) for name, source in columns.items() if source)


def labels_of(name: str, rows: pl.DataFrame, where: str) -> Labels:
    """Labels from `rows` (item, rater, label), which `where` names in errors."""
    _check_once(rows, where)
    stripped_rows = rows.with_columns(pl.col("label").cast(pl.String).str.strip_chars())
    # One row is one label of a rater; a word for no verdict is none, in whatever case.
    labelled_rows = stripped_rows.filter(~pl.col("label").fill_null("").str.to_lowercase().is_in(_NAMES["no_verdict"]))
    if labelled_rows.is_empty():
        raise BadInput(f"{where} holds no label; fill its column in")
    labels = Labels(
        name,
        labelled_rows.with_columns(label=_in_our_words(labelled_rows["label"])),
        rows.height - labelled_rows.height,
    )
    if (kinds := labels.rows["label"].n_unique()) > LABELS_MAX:
        raise BadInput(
            f"{where} has {kinds:,} different labels, more than {LABELS_MAX}; see `curate correlate` for scores"
        )
    return labels


def same_kind(files: Iterable[Labels]) -> None:
    """Raises BadInput when some files hold votes and another has a label that is none."""
    files = list(files)
    if not any(file.are_votes for file in files):
        return
    for file in files:
        if others := sorted(set(file.rows["label"].unique()) - set(VOTE_NAMES.values())):
            example = one_line(others[0], 60)
            raise BadInput(
                f"{file.name}: unknown vote {known_values(example, VOTE_NAMES.values())} The other file holds votes"
            )


def _check_once(rows: pl.DataFrame, where: str) -> None:
    twice = rows.filter(rows.select("item", "rater").is_duplicated())
    if twice.is_empty():
        return
    item, rater = one_line(twice["item"][0], 60), twice["rater"][0]
    if rater is None:
        raise BadInput(f"{where}: item {item!r} has two labels; keep one, or say whose they are in a column rater")
    raise BadInput(f"{where}: rater {one_line(rater, 60)!r} labels item {item!r} twice; keep one of the two")


def _in_our_words(labels: pl.Series) -> pl.Series:
    """Votes under our names if all are votes; numbers written in one way if all are numbers."""
    small = labels.str.to_lowercase()
    if set(small.unique()) <= _SPELLINGS.keys():
        return small.replace_strict(_SPELLINGS, return_dtype=pl.String).alias("label")
    numbers = labels.cast(pl.Float64, strict=False)
    if numbers.is_finite().fill_null(False).all():
        return pl.Series("label", [f"{number:g}" for number in numbers], pl.String)
    return labels
