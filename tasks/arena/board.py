"""The leaderboard: the boards of a release, or one of the votes so far, drawn as the explorer draws them."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import polars as pl
from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response

from schemas.errors import BadInput
from schemas.rating import Rating
from tasks.arena.logs import Cast
from tasks.arena.page import ArenaPages
from tasks.arena.words import number, page_words
from tasks.explore.summaries import OVERALL, Rated, grouped, shown_board, slices

Rate = Callable[[pl.DataFrame], tuple[Sequence[Rating], int]]
"""A table model_a, model_b, winner, judge, tstamp -> its board, best model first, and how many votes count in full."""
_FRESH_SECONDS = 30.0
_SLICES: dict[str, Callable[[Cast], bool]] = {
    "overall": lambda cast: True,
    "with_image": lambda cast: cast.with_image,
    "text_only": lambda cast: not cast.with_image,
}
_COLUMNS = ["slice", "rank", "model", "rating", "ci95_low", "ci95_high", "battles", "flags"]


class Board(Protocol):
    """The board that the tab shows."""

    def about(self) -> str:
        """Source of the boards, in a sentence."""
        ...

    def slices(self) -> list[str]:
        """Names of the boards; the one that is shown first comes first."""
        ...

    def rows(self, name: str) -> list[Rated]:
        """Every model of a board, best first; none for a slice without votes."""
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
        self._name = release.name

    def about(self) -> str:
        """Names the release."""
        return str(page_words()["board_of_release"]).format(name=self._name)

    def slices(self) -> list[str]:
        """Overall first."""
        return slices(self._ratings)

    def rows(self, name: str) -> list[Rated]:
        """Best model first."""
        return shown_board(self._ratings, name)


class LiveBoard(Board):
    """Boards of the votes so far, made anew at most twice a minute."""

    def __init__(self, cast: Sequence[Cast], rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._cast, self._rate, self._clock = cast, rate, clock
        self._made: dict[str, tuple[float, int, list[Rated]]] = {}

    def about(self) -> str:
        """Says that nothing was cleaned."""
        return str(page_words()["board_live"])

    def slices(self) -> list[str]:
        """Names of the slices that have votes."""
        return [name for name, chosen in _SLICES.items() if any(map(chosen, self._cast))]

    def rows(self, name: str) -> list[Rated]:
        """Best model first; empty for a slice without votes. What was forgotten is gone at once."""
        made_at, votes, rows = self._made.get(name, (0.0, 0, []))
        if not rows or len(self._cast) < votes or self._clock() - made_at > _FRESH_SECONDS:
            rows = self._board(name)
            self._made[name] = self._clock(), len(self._cast), rows
        return rows

    def _board(self, name: str) -> list[Rated]:
        chosen = [each for each in self._cast if name in _SLICES and _SLICES[name](each)]
        if not chosen:
            return []
        table = pl.DataFrame(
            {
                "model_a": [each.model_a for each in chosen],
                "model_b": [each.model_b for each in chosen],
                "winner": [each.winner for each in chosen],
                "judge": [each.user or None for each in chosen],
                "tstamp": [datetime.fromtimestamp(each.seconds, UTC) for each in chosen],
            }
        )
        board, in_full = self._rate(table)
        lighter = page_words()["board_lighter"].format(votes=f"{len(chosen) - in_full:,}")
        self.about = page_words()["board_live"] + (f" {lighter}" if in_full < len(chosen) else "")
        rated = [each.model_dump(include=set(_COLUMNS)) | {"slice": name} for each in board]
        return shown_board(pl.DataFrame(rated, infer_schema_length=None), name)


def votes_of(rows: Sequence[Rated]) -> str:
    """How many votes a board rests on, in words; every vote is in the rows of two models."""
    votes, texts = sum(row.battles for row in rows) // 2, page_words()
    told = texts["board_vote"] if votes == 1 else texts["board_many"].format(votes=number(votes))
    return str(texts["board_votes"].format(votes=told, models=len(rows)) if rows else texts["board_none"])


def board_routes(app: FastAPI, pages: ArenaPages, board: Board) -> None:
    """The page of the leaderboard."""

    @app.get("/board")
    def shown(slice: str = "") -> Response:
        names = board.slices()
        name = slice if slice in names else next(iter(names), OVERALL)
        rows = board.rows(name)
        values = {
            "about": board.about(),
            "groups": grouped(names),
            "slice": name,
            "board": rows,
            "votes": votes_of(rows),
        }
        return HTMLResponse(pages.page("board.html", "board", **values))
