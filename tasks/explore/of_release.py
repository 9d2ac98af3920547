"""A release as a source: what is in its files, and nothing of the store."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.benches.certificate import VoteCheck
from schemas.items.review import Stretch
from schemas.rating import Fragility
from schemas.release import CONFIGS, ROW_KEYS
from tasks.explore import listing
from tasks.explore.listing import IMAGE_ID, release_rows
from tasks.explore.questions import OfAskedRelease
from tasks.release.registered import BOARD_PATHS, FRAGILITY, VOTE_CHECKS, ReleasePart, ShownBoard, path_in_release
from tasks.shown import (
    BATTLE,
    CONVERSATION,
    FAILURE,
    PROMPT,
    Gone,
    Item,
    ItemImage,
    Reason,
    Section,
    ShownMessage,
    ShownSide,
    Text,
    item_facts,
)
from tasks.storage.tables import frame_of

_KINDS = {"chat": CONVERSATION, "battle": BATTLE, "bench": PROMPT, "failures": FAILURE}
_BROKEN = (pa.ArrowException, OSError, ValueError, pl.exceptions.PolarsError)
_GROUPS_IN_MEMORY = 3
_JUDGE = "leaderboard/judge"
_MAP = "topics/map.parquet"
_TEXTS = {
    "chat": ("conversation",),
    "battle": ("conversation_a", "conversation_b"),
    "bench": ("turns",),
    "failures": ("turns",),
}
ShardRowGroup = tuple[str, int, int]
"""Configuration, number of the shard, number of the row group."""


class OfRelease:
    """A release in a local folder, with the `parts` that products add to it.

    `withdrawn` says who has removed its data meanwhile, if anybody has; else it says nothing.
    """

    private = False

    def __init__(
        self, folder: Path, title: str, withdrawn: Callable[[], str], parts: Sequence[ReleasePart] = ()
    ) -> None:
        self.title, self._folder, self._withdrawn, self._of_products = title, folder, withdrawn, parts
        self.problems: list[str] = []
        self._groups: list[ShardRowGroup] = []
        self._group_of: dict[str, int] = {}
        self._images = lru_cache(_GROUPS_IN_MEMORY)(self._read_images)

    def refresh(self) -> None:
        """Raises Gone when the release was withdrawn."""
        if reason := self._withdrawn():
            self._images.cache_clear()
            raise Gone(f"this release was withdrawn: {reason}")

    @cached_property
    def listing(self) -> pl.DataFrame:
        """The listing, newest first."""
        empty = pl.DataFrame(
            schema={"config": pl.String, "id": pl.String, "topic_id": pl.Int32, "x": pl.Float32, "y": pl.Float32}
        )
        points = self._read(_MAP, empty.columns)
        points = empty if points is None else points
        rows = {config: list(self._rows(config, points.filter(config=config))) for config in CONFIGS}
        named = [frame.select("topic_id", "topic") for config in ("chat", "bench") for frame in rows[config]]
        names = dict(pl.concat(named).drop_nulls().unique().iter_rows()) if named else {}
        topic = pl.col("topic_id").replace_strict(names, default=listing.NO_TOPIC, return_dtype=pl.String)
        for config in ("battle", "failures"):  # they are released without a topic
            rows[config] = [frame.with_columns(topic=topic) for frame in rows[config]]
        named_bench = pl.col("id").replace_strict(self._benches(), default=pl.col("bench"), return_dtype=pl.String)
        rows["bench"] = [frame.with_columns(bench=named_bench) for frame in rows["bench"]]
        return listing.finished([frame for config in CONFIGS for frame in rows[config]])

    @property
    def searchable(self) -> pl.DataFrame:
        """The listing."""
        return self.listing

    @cached_property
    def _tables(self) -> dict[str, pl.DataFrame]:
        """Tables of products, and of votes that decide or look wrong, without those that cannot be read."""
        tables = (FRAGILITY, VOTE_CHECKS, *(name for part in self._of_products for name in part.tables))
        return {table: rows for table in tables if (rows := self._read(path_in_release(table))) is not None}

    def _read(self, path: str, columns: Sequence[str] | None = None) -> pl.DataFrame | None:
        """A table of the release, or some columns of it; None without one, and for one that cannot be read."""
        try:
            if (self._folder / path).exists():
                rows = pl.DataFrame(_opened(self._folder / path).read())
                return rows if columns is None else rows.select(columns)
        except _BROKEN as error:
            self._name(path, error)
        return None

    def _benches(self) -> dict[str, str]:
        """Prompt -> the benchmark it was written or made for."""
        named = (rows for rows in self._tables.values() if {"question_id", "bench"} <= {*rows.columns})
        return {prompt: bench for rows in named for prompt, bench in rows.select("question_id", "bench").iter_rows()}

    def _sections(self, prompt: str) -> list[Section]:
        """Sections of products about one prompt."""

        def rows_of(table: str) -> list[dict[str, Any]]:
            rows = self._tables.get(table, pl.DataFrame())
            return (rows.filter(question_id=prompt) if "question_id" in rows.columns else rows).to_dicts()

        return [
            Section(
                section.title,
                [*section.facts],
                [Text(label, note, [Stretch(text)]) for label, note, text in section.texts],
                section.beside,
            )
            for part in self._of_products
            for section in part.shown(rows_of)
        ]

    def _rows(self, config: str, points: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Rows of a configuration, one row group at a time, without reading image bytes."""
        columns = [
            name for name in CONFIGS[config].model_fields if name not in ("images", "conv_metadata", "user_id", "judge")
        ]
        for number, shard in enumerate(self._shards(config)):
            try:
                file = _opened(shard)
                leaves = [file.schema.column(n).path for n in range(len(file.schema.names))]
                names = [leaf for leaf in leaves if leaf.startswith("images.") and leaf.endswith(".path")]
                for group in range(file.num_row_groups):
                    read = pl.DataFrame(file.read_row_group(group, [*columns, *names]))
                    # the place of a row group; notes which images it holds
                    place = len(self._groups)
                    self._groups.append((config, number, group))
                    for image_id in (
                        read["images"].explode().drop_nulls().struct.field("path").str.extract(IMAGE_ID).drop_nulls()
                    ):
                        self._group_of.setdefault(image_id, place)
                    yield release_rows(config, read, points).with_columns(place=pl.lit(place, pl.Int32))
            except _BROKEN as error:
                self._name(f"{config}/data/{shard.name}", error)

    def _shards(self, config: str) -> list[Path]:
        return sorted((self._folder / config / "data").glob("train-*.parquet"))

    def _name(self, what: str, error: Exception) -> None:
        problem = f"{what} cannot be read ({type(error).__name__}) and is left out; `curate verify` says more"
        if problem not in self.problems:
            self.problems.append(problem)

    def hidden_image(self, image_id: str) -> str:
        """Empty: a release shows what is in its files."""
        return ""

    def image(self, image_id: str) -> bytes | None:
        """An encoded image of the release."""
        place = None if self.listing.is_empty() else self._group_of.get(image_id)
        return None if place is None else self._images(place).get(image_id)

    def _read_group(self, place: int, columns: list[str]) -> pl.DataFrame | None:
        """Columns of a row group; None when it cannot be read."""
        config, shard, group = self._groups[place]
        try:
            return pl.DataFrame(_opened(self._shards(config)[shard]).read_row_group(group, columns))
        except _BROKEN as error:
            self._name(f"{config}/data", error)
            return None

    def _read_images(self, place: int) -> dict[str, bytes]:
        if (rows := self._read_group(place, ["images"])) is None:
            return {}
        images = rows["images"].explode().drop_nulls().struct.unnest()
        named = images.select(pl.col("path").str.extract(IMAGE_ID), "bytes").drop_nulls()
        return dict(named.iter_rows())

    def item(self, key: str, opened: bool) -> Item | None:
        """A row of the release."""
        listed = self.listing.filter(pl.col("key") == key)
        if listed.is_empty():
            return None
        listed_row = listed.row(0, named=True)
        config = self._groups[listed_row["place"]][0]
        rows = self._read_group(
            listed_row["place"], [name for name in CONFIGS[config].model_fields if name != "images"]
        )
        if rows is None:
            return None
        row = rows.row(by_predicate=pl.col(ROW_KEYS[config]) == listed_row["id"], named=True)
        more = {
            "Failed by": ", ".join(row.get("models") or []),
            "Kind of failure": row.get("failure_type"),
            "User": row.get("user_id") or row.get("judge"),
        }
        return Item(
            key=key,
            kind=listed_row["kind"],
            item_id=listed_row["id"],
            sides=list(_sides(config, row)),
            images=[ItemImage(image_id, "") for image_id in listed_row["image_ids"]],
            vote=listed_row["vote"] or "",
            vote_reason=[Stretch(row["vote_reason"])] if row.get("vote_reason") else [],
            facts=item_facts(listed_row, more),
            sections=self._sections(listed_row["id"]) if config == "bench" else [],
        )

    def note_opened(self, by: str) -> None:
        """Nothing of a release is masked."""

    def boards(self) -> pl.DataFrame:
        """Rows of all boards of the release."""
        paths = sorted((self._folder / "leaderboard").glob("*.parquet"))
        boards = [rows for path in paths if (rows := self._read(f"leaderboard/{path.name}")) is not None]
        return pl.concat(boards) if boards else pl.DataFrame()

    def of_votes(self, table: str) -> pl.DataFrame:
        """The fewest votes that change the boards, or votes that look wrong; empty in releases that do not say so."""
        if table == "fragility":
            return self._tables.get(FRAGILITY, frame_of(Fragility, []))
        return self._tables.get(VOTE_CHECKS, frame_of(VoteCheck, []))

    def judged(self) -> tuple[pl.DataFrame, dict[str, Any]]:
        """The judge's board of the release, and what it rests on."""
        board, agreement = (self._tables.get(f"{_JUDGE}/{name}", pl.DataFrame()) for name in ("board", "agreement"))
        return board, next(agreement.iter_rows(named=True), {})

    def item_boards(self) -> list[ShownBoard]:
        """Boards of products, from those tables that can be read."""

        def board_of(name: str) -> pl.DataFrame:
            return self._tables.get(BOARD_PATHS[name], pl.DataFrame())

        return [board for part in self._of_products for board in part.boards(board_of)]

    def reasons(self) -> list[Reason]:
        """Empty: a release holds nothing of what was dropped."""
        return []

    has_vectors = False
    """A release holds no vectors."""

    def closeness(self, item_id: str) -> pl.Series | None:
        """None: a release holds no vectors."""
        return None

    @property
    def asked(self) -> OfAskedRelease:
        """The files of the release, to be asked in SQL. Raises BadInput where they cannot be read."""
        return OfAskedRelease(self._folder)

    def note_ids_given(self, count: int) -> None:
        """Whoever has the release has its ids."""

    def evidence(self, ids: list[tuple[str, str]]) -> dict[tuple[str, str], list[str]]:
        """Empty."""
        return {}


def _opened(path: Path) -> pq.ParquetFile:
    """A Parquet file. Raises OSError for a pipe, which would be read for ever, and one of `_BROKEN`."""
    if path.exists() and not path.is_file():
        raise OSError("not a file")
    return pq.ParquetFile(path)


def _sides(config: str, row: Mapping[str, Any]) -> Iterator[ShownSide]:
    models = {"chat": ["model"], "battle": ["model_a", "model_b"]}.get(config, [])
    for place, column in enumerate(_TEXTS[config]):
        model = row[models[place]] if models else ""
        yield ShownSide(model, [ShownMessage(turn["role"], [Stretch(turn["content"])]) for turn in row[column]])
