"""The leaderboard: the boards of a release, or one of the votes so far, drawn as the explorer draws them."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import polars as pl
from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response

from schemas.errors import BadInput
from schemas.rating import OVERALL, STYLE_CONTROL, Fragility, Rating
from tasks.arena.logs import Cast
from tasks.arena.page import ArenaPages
from tasks.arena.words import number, page_words
from tasks.leaderboard.shown_boards import Rated, grouped, shown_board, slices
from tasks.storage.queries.bench import contests
from tasks.storage.tables import frame_of

Rate = Callable[[pl.DataFrame, str], tuple[Sequence[Rating], Sequence[Fragility], int]]
"""A table model_a, model_b, winner, judge, tstamp, with style covariates, and a slice -> its board, how few votes
change it, and how many votes count in full."""
_FRESH_SECONDS = 30.0
_SLICES: dict[str, Callable[[Cast], bool]] = {
    "overall": lambda cast: True,
    "with_image": lambda cast: cast.with_image,
    "text_only": lambda cast: not cast.with_image,
    STYLE_CONTROL: lambda cast: True,
}
_COVARIATES = [f"{name}_{side}" for side in "ab" for name in ("tokens", "headers", "list_items", "bold")]
"""Columns of `Cast.style`; answers are compared by their lengths, so characters stand in for tokens."""
_COLUMNS = ["slice", "rank", "model", "rating", "ci95_low", "ci95_high", "battles", "flags"]


class ReleaseBoard:
    """The boards of a release; it is read once, because a release never changes."""

    def __init__(self, release: Path) -> None:
        files = sorted((release / "leaderboard").glob("*.parquet"))
        tables = [pl.read_parquet(file) for file in files]
        boards = [table.select(_COLUMNS) for table in tables if set(_COLUMNS) <= set(table.columns)]
        if not boards:
            raise BadInput(f"--board {str(release)!r} is no release with a leaderboard; give its folder, or live")
        self._ratings = pl.concat(boards, how="vertical_relaxed").unique(["slice", "model"], maintain_order=True)
        self._name = release.name
        fragile, manifest = release / "leaderboard" / "integrity" / "fragility.parquet", release / "manifest.json"
        self._fragility = pl.read_parquet(fragile) if fragile.is_file() else pl.DataFrame()
        manifest_fields = orjson.loads(manifest.read_bytes()) if manifest.is_file() else {}
        self._days = (
            (manifest_fields["first_day"], manifest_fields["last_day"]) if manifest_fields.get("last_day") else None
        )

    def about(self, name: str) -> str:
        """Source of a board, in a sentence that names the release."""
        return str(page_words()["board_of_release"]).format(name=self._name)

    def slices(self) -> list[str]:
        """Names of the boards; the one that is shown first comes first."""
        return slices(self._ratings)

    def rows(self, name: str) -> list[Rated]:
        """Every model of a board, best first."""
        return shown_board(self._ratings, name)

    def contests(self, name: str) -> list[dict[str, Any]]:
        """How few votes change a board; nothing for releases before layout 7."""
        return contests(self._fragility.filter(slice=name)).to_dicts() if self._fragility.height else []

    def days(self) -> tuple[str, str] | None:
        """First and last day of the votes, by the manifest."""
        return self._days


class _Made(NamedTuple):
    """A board that was made of votes."""

    rows: list[Rated]
    contests: list[dict[str, Any]]
    lighter: int
    """Votes that do not count in full."""


class LiveBoard:
    """Boards of the votes so far, made anew at most twice a minute; used as those of a release."""

    def __init__(self, cast: Sequence[Cast], rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._cast, self._rate, self._clock = cast, rate, clock
        self._made: dict[str, tuple[float, int, _Made]] = {}

    def about(self, name: str) -> str:
        """Says that nothing was cleaned, and how many votes do not count in full."""
        texts, lighter = page_words(), self._board(name).lighter
        return " ".join(
            [texts["board_live"], *([texts["board_lighter"].format(votes=number(lighter))] if lighter else [])]
        )

    def slices(self) -> list[str]:
        """Names of the slices that have votes."""
        return [name for name, chosen in _SLICES.items() if any(map(chosen, self._cast))]

    def rows(self, name: str) -> list[Rated]:
        """Best model first; empty for a slice without votes. What was forgotten is gone at once."""
        return self._board(name).rows

    def contests(self, name: str) -> list[dict[str, Any]]:
        """Nothing for fewer than 100 votes."""
        return self._board(name).contests

    def days(self) -> tuple[str, str] | None:
        """Days of the votes so far."""
        times = [vote.seconds for vote in self._cast if vote.seconds]
        first, last = (datetime.fromtimestamp(at, UTC).date() for at in (min(times, default=0), max(times, default=0)))
        return (first.isoformat(), last.isoformat()) if times else None

    def _board(self, name: str) -> "_Made":
        made_at, votes, board = self._made.get(name, (0.0, 0, _Made([], [], 0)))
        if not board.rows or len(self._cast) < votes or self._clock() - made_at > _FRESH_SECONDS:
            board = self._rated(name)
            self._made[name] = self._clock(), len(self._cast), board
        return board

    def _rated(self, name: str) -> "_Made":
        chosen = [vote for vote in self._cast if name in _SLICES and _SLICES[name](vote)]
        if not chosen:
            return _Made([], [], 0)
        names = ("model_a", "model_b", "winner")
        rows = [
            (*(getattr(vote, key) for key in names), vote.user or None, vote.seconds, *vote.style) for vote in chosen
        ]
        columns = [*names, "judge", "tstamp", *_COVARIATES]
        table = pl.DataFrame(rows, columns, orient="row", infer_schema_length=None).with_columns(
            pl.col("judge").cast(pl.String),
            pl.from_epoch((pl.col("tstamp") * 1e6).cast(pl.Int64), "us").dt.replace_time_zone("UTC"),
        )
        board, fragile, in_full = self._rate(table, name)
        rated = [rating.model_dump(include=set(_COLUMNS)) | {"slice": name} for rating in board]
        board_rows = shown_board(pl.DataFrame(rated, infer_schema_length=None), name)
        return _Made(board_rows, contests(frame_of(Fragility, fragile)).to_dicts(), len(chosen) - in_full)


Board = ReleaseBoard | LiveBoard


def votes_of(rows: Sequence[Rated]) -> str:
    """How many votes a board rests on, in words; every vote is in the rows of two models."""
    votes, texts = sum(row.battles for row in rows) // 2, page_words()
    count_in_words = texts["board_vote"] if votes == 1 else texts["board_many"].format(votes=number(votes))
    return str(texts["board_votes"].format(votes=count_in_words, models=len(rows)) if rows else texts["board_none"])


def board_routes(app: FastAPI, pages: ArenaPages, board: Board) -> None:
    """The page of the leaderboard."""

    @app.get("/board")
    def shown(slice: str = "") -> Response:
        names = board.slices()
        name = slice if slice in names else next(iter(names), OVERALL)
        rows = board.rows(name)
        page = pages.page(
            "board.html", "board", about=board.about(name), groups=grouped(names), slice=name, board=rows,
            votes=votes_of(rows), contests=board.contests(name), days=board.days(),
        )  # fmt: skip
        return HTMLResponse(page)
