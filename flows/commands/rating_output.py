"""Prints rating tables for people."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from schemas.judging import JudgeRating, SubmissionRating
from schemas.rating import Rating
from schemas.row import Row
from tasks.runtime.untrusted import one_line

_FILE_WIDTH = 160
_DIGITS = {"score": 2, "win_rate": 1, "reward": 1, "mean_tokens": 0, "rating": 1, "rating_style": 1, "evidence": 1}
_DIGITS |= {"left_density": 5, "right_density": 5, "elo": 1}


def print_rows(name: str, rows: Sequence[Row]) -> None:
    """Print rows of one table; boards with their interval in one column."""
    if not rows:
        Console(markup=False).print(f"{name}: no rows")
        return
    shown = [_shown(row) for row in rows]
    if name != "vote_shares" and {row.get("slice", "overall") for row in shown} <= {"overall", name}:
        shown = [{column: value for column, value in row.items() if column != "slice"} for row in shown]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, value in shown[0].items():
        table.add_column("" if column == "flags" else column, justify="left" if _is_text(value) else "right")
    for row in shown:
        table.add_row(*(_text(column, value) for column, value in row.items()))
    terminal = Console().is_terminal
    Console(markup=False, highlight=False, width=None if terminal else _FILE_WIDTH).print(table)


def _shown(row: Row) -> dict[str, Any]:
    if isinstance(row, JudgeRating):
        return _judge_row(row)
    if isinstance(row, SubmissionRating):
        return _submission_row(row)
    return _board_row(row) if isinstance(row, Rating) else row.model_dump(mode="json")


def _judge_row(row: JudgeRating) -> dict[str, Any]:
    low, high = row.score_ci95_low, row.score_ci95_high
    return {
        "slice": row.slice,
        "rank": row.rank,
        "model": row.model,
        "score": row.score,
        "95 % interval": "-" if low is None or high is None else f"{low:.1f} to {high:.1f}",
        "win_rate": row.win_rate,
        "reward": row.reward,
        ">> / > / = / < / <<": f"{row.much_better} / {row.better} / {row.tie} / {row.worse} / {row.much_worse}",
        "no_verdict": row.no_verdict,
        "mean_tokens": row.mean_tokens,
        "coverage": row.coverage,
        "flags": row.flags,
    }


def _submission_row(row: SubmissionRating) -> dict[str, Any]:
    low, high = ("∞" if end is None else f"{end:.0f}" for end in (row.ci95_low, row.ci95_high))
    return {
        "slice": row.slice,
        "rank": row.rank,
        "model": row.model,
        "rating": row.rating,
        "95 % interval": f"{'-' if row.ci95_low is None else ''}{low} to {high}",
        "elo": row.elo,
        "matches": row.matches,
        "coverage": row.coverage,
        "win_rate_vs_reference": row.win_rate_vs_reference,
        "of": row.decisive_vs_reference,
        "flags": row.flags,
    }


def _board_row(row: Rating) -> dict[str, Any]:
    low, high = ("∞" if end is None else f"{end:.0f}" for end in (row.ci95_low, row.ci95_high))
    interval = f"{'-' if row.ci95_low is None else ''}{low} to {high}"
    return {
        "slice": row.slice,
        "rank": row.rank,
        "model": row.model,
        "rating": row.rating,
        "95 % interval": interval,
        "battles": row.battles,
        "flags": row.flags,
    }


def _is_text(value: object) -> bool:
    return isinstance(value, (str, list)) and " to " not in str(value) and " / " not in str(value)


def _text(column: str, value: object) -> str:
    """A cell. Model names are untrusted text and must not contain terminal control characters."""
    if isinstance(value, float):
        return f"{value:.{_DIGITS.get(column, 3)}f}"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else one_line(str(value))
