"""The leaderboard tab: the boards of a release, or one of the votes so far."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from schemas.errors import BadInput
from schemas.rating import Rating
from tasks.arena.logs import Cast
from tasks.storage.queries.board_order import best_first

Rate = Callable[[pl.DataFrame], Sequence[Rating]]
"""A table model_a, model_b, winner -> its board, best model first."""
_FRESH_SECONDS = 30.0
_SLICES: dict[str, Callable[[Cast], bool]] = {
    "overall": lambda cast: True,
    "with_image": lambda cast: cast.with_image,
    "text_only": lambda cast: not cast.with_image,
}
_COLUMNS = ["slice", "rank", "model", "rating", "ci95_low", "ci95_high", "battles", "flags"]


class Board(Protocol):
    """The board that the tab shows."""

    about: str = ""

    def slices(self) -> list[str]:
        """Names of the boards; the one that is shown first comes first."""
        ...

    def rows(self, name: str) -> list[list[Any]]:
        """Rank, model, rating, 95 % interval and votes of every model of a board."""
        ...


class ReleaseBoard(Board):
    """The boards of a release; it is read once, because a release never changes."""

    def __init__(self, release: Path) -> None:
        files = sorted((release / "leaderboard").glob("*.parquet"))
        tables = [pl.read_parquet(file) for file in files]
        boards = [table.select(_COLUMNS) for table in tables if set(_COLUMNS) <= set(table.columns)]
        if not boards:
            raise BadInput(f"--board {str(release)!r} is no release with a leaderboard; give its folder, or live")
        self._ratings = pl.concat(boards, how="vertical_relaxed").unique(["slice", "model"], maintain_order=True)
        self.about = f"Boards of release {release.name}: Bradley-Terry ratings with 95 % intervals."

    def slices(self) -> list[str]:
        """Overall first."""
        names = self._ratings["slice"].unique().to_list()
        return sorted(names, key=lambda name: (name != "overall", ":" in name, name))

    def rows(self, name: str) -> list[list[Any]]:
        """Best model first."""
        chosen = best_first(self._ratings.filter(slice=name)).drop("slice", "flags")
        return [_row(*row) for row in chosen.iter_rows()]


class LiveBoard(Board):
    """Boards of the votes so far, made anew at most twice a minute."""

    def __init__(self, cast: Sequence[Cast], rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._cast, self._rate, self._clock = cast, rate, clock
        self._made: dict[str, tuple[float, list[list[Any]]]] = {}
        self.about = (
            "Bradley-Terry ratings of the anonymous votes in this arena's logs, with 95 % intervals. Nothing was "
            "cleaned: a release of `curate run` may differ."
        )

    def slices(self) -> list[str]:
        """Names of the slices that have votes."""
        return [name for name, chosen in _SLICES.items() if any(map(chosen, self._cast))]

    def rows(self, name: str) -> list[list[Any]]:
        """Best model first; empty for a slice without votes."""
        made_at, rows = self._made.get(name, (0.0, []))
        if not rows or self._clock() - made_at > _FRESH_SECONDS:
            rows = self._board(name)
            self._made[name] = self._clock(), rows
        return rows

    def _board(self, name: str) -> list[list[Any]]:
        chosen = [each for each in self._cast if name in _SLICES and _SLICES[name](each)]
        if not chosen:
            return []
        table = pl.DataFrame(
            {
                "model_a": [each.model_a for each in chosen],
                "model_b": [each.model_b for each in chosen],
                "winner": [each.winner for each in chosen],
            }
        )
        return [
            _row(each.rank, each.model, each.rating, each.ci95_low, each.ci95_high, each.battles)
            for each in self._rate(table)
        ]


def votes_of(rows: Sequence[Sequence[Any]]) -> str:
    """How many votes a board rests on, in words; every vote is in the rows of two models."""
    votes = sum(row[-1] for row in rows) // 2
    return f"{votes:,} vote{'' if votes == 1 else 's'} on {len(rows)} models" if rows else "No votes yet."


def _row(rank: int | None, model: str, rating: float, low: float | None, high: float | None, battles: int) -> list[Any]:
    interval = f"{'…' if low is None else round(low)} to {'…' if high is None else round(high)}"
    return [rank if rank is not None else "", model, round(rating), interval, battles]
