"""The parts of a release beside its configurations: leaderboards, map of topics, tasks for other runners, thinking.

`leaderboard/` has Parquet for programs and CSV for people. `topics/map.parquet` has one row for each released row whose
prompt has a topic. `bench/runners` has the benchmark for lmms-eval and inspect_ai. What models thought aloud is there
only under a policy that releases it, which screens it like the answers.
"""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self

import polars as pl

from schemas.policy import Policy
from schemas.release import CONFIGS, ROW_KEYS, MapPoint, ReleasedThinking
from schemas.row import arrow_schema
from tasks.release.certificate.file import CERTIFICATE_PART
from tasks.release.checks.boards import CHECKED_VOTES, FRAGILE, unlike_votes
from tasks.release.citation import CITED
from tasks.release.contents import READ_ERRORS, forbidden_data, sound_groups, wrong_texts
from tasks.release.croissant import CROISSANT_PART
from tasks.release.data_page import DATA_PAGE
from tasks.release.dataset_card import ROW_FIGURES
from tasks.release.known_rows import KNOWN_PART
from tasks.release.registered import (
    RUNNERS,
    CardSection,
    OpenRelease,
    ReleasePart,
    Stated,
    Unsealed,
    board_csv,
    is_benchmark_alone,
    path_in_release,
    read_released,
    write_table,
)
from tasks.release.shards import shard_files
from tasks.storage.parquet import conform, parquet_writer, read_parquet_groups
from tasks.storage.queries.bench import best_first
from tasks.storage.queries.released import require_redactions
from tasks.storage.tables import frame_of

BOARDS = {
    "overall": pl.col("slice").is_in(
        ["overall", "exclude_ties", "exclude_refusal", "exclude_preset", "without_suspects"]
    ),
    "by_category": pl.col("slice").str.starts_with("category:"),
    "by_language": pl.col("slice").str.starts_with("language:"),
    "by_question": pl.col("slice").str.starts_with("question:"),
    "by_image": pl.col("slice").str.starts_with("image:"),
    "by_month": pl.col("slice").str.starts_with("month:"),
    "style_control": pl.col("slice") == "style_control",
}
"""File name -> filter of the `ratings` table by slice."""
MAP = path_in_release("topics")
_THINKING, _THINKING_TITLE, _THINKING_SINCE = "thinking", "## Thinking", 8
THINKING = path_in_release(_THINKING)
_EARLIER_RUNNERS = {
    "960085c33adfda911955279b962d735436d217920b713dd3ff35479b709d1b01",
    "ee42e21e670ea3ca539ea1bee062bf46b8e8ca8b5d05b6fd414a34a9a5d10f7c",
}
"""SHA-256 of those files of 0.1 that are others now; a version that changes one adds what the last one wrote."""
_RUNNERS_SINCE = 5
"""Releases of an earlier layout have no files for other runners."""
_WITHOUT_TOPICS = ["battle", "failures"]
"""Configurations that are released without topics; those of their rows are known from their points."""


def write_leaderboards(ratings: pl.DataFrame, release: Path) -> None:
    """Write `leaderboard/<board>.parquet` and `.csv`, sorted by slice, best models first."""
    for name, chosen in BOARDS.items():
        board = best_first(ratings.filter(chosen), within=["slice"])
        write_table(release, "leaderboard", board, f"leaderboard/{name}")


def wrong_boards(release: OpenRelease) -> Iterator[str]:
    """Problems of boards that cannot be read, differ from their CSV file, or are not what the votes give."""
    paths = sorted((release.folder / "leaderboard").glob("*.parquet"))
    problems = [problem for path in paths for problem in wrong_board(release.folder, path)]
    yield from problems or unlike_votes(release, BOARDS)


def wrong_board(folder: Path, path: Path, digits: int | None = 2) -> Iterator[str]:
    """A problem of one board; `digits`: those after the point in its CSV file, None for one without."""
    name, beside = path.relative_to(folder).as_posix(), path.with_suffix(".csv")
    try:
        rows = pl.concat(sound_groups(path))
    except READ_ERRORS as error:
        yield f"{name}: its pages cannot be read ({type(error).__name__})"
        return
    if digits is None:
        return
    if not beside.is_file() or beside.read_bytes() != board_csv(rows, digits).encode():
        yield f"{name.removesuffix('.parquet')}.csv: not what {path.name} says"


class MapFile:
    """Writes the file while the rows of a release are gathered, one row group for each block of rows."""

    def __init__(self, staging: Path) -> None:
        self._schema = arrow_schema(MapPoint)
        (staging / MAP).parent.mkdir(parents=True, exist_ok=True)
        self._file = parquet_writer(staging / MAP, self._schema)

    def add(self, config: str, rows: pl.DataFrame) -> None:
        """Add gathered rows, which have topic_id, x and y; those without a topic are left out."""
        points = rows.drop_nulls("topic_id").select("topic_id", "x", "y", config=pl.lit(config), id=ROW_KEYS[config])
        if points.height:
            self._file.write(conform(points, self._schema))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()


def wrong_points(release: OpenRelease) -> Iterator[str]:
    """Problems of the map: it cannot be read, or has other rows or topics than the shards."""
    folder = release.folder
    has_map = (folder / MAP).is_file() or not is_benchmark_alone(folder)
    try:
        points = list(sound_groups(folder / MAP)) if has_map else []
    except READ_ERRORS as error:
        yield f"{MAP}: it is missing, or its pages cannot be read ({type(error).__name__})"
        return
    yield from wrong_places(pl.concat([_no_points(), *points]), pl.concat(_rows(folder)))
    yield from _names_of_topics(folder)


def wrong_places(points: pl.DataFrame, rows: pl.DataFrame) -> Iterator[str]:
    """Problems of points (config, id, topic_id, x, y) beside the released rows (config, id, topic_id)."""
    # A row is one place of a conversation. `question_id` is the id of a conversation, which is often in chat or in
    # battle, too.
    places = points.unique(["id", "topic_id", "x", "y"])
    if count := places.group_by("id").len().filter(pl.col("len") > 1).height:
        yield f"{MAP}: {count:,} rows have another point or topic than the same conversation in another configuration"
    points_of_rows = points.unique(["config", "id"], keep="first").select("config", "id", topic_of_point="topic_id")
    topic = pl.when(pl.col("config").is_in(_WITHOUT_TOPICS)).then("topic_of_point").otherwise("topic_id")
    rows = rows.join(points_of_rows, on=["config", "id"], how="left").with_columns(topic_id=topic)
    if count := points.join(rows, on=["config", "id", "topic_id"], how="anti").height:
        yield f"{MAP}: {count:,} points are of no released row, or of another topic"
    if count := rows.drop_nulls("topic_id").join(points, on=["config", "id"], how="anti").height:
        yield f"{MAP}: {count:,} released rows with a topic have no point"


def _names_of_topics(folder: Path) -> Iterator[str]:
    """A problem for each topic with several names, and for each name of several topics."""
    named = pl.DataFrame(schema={"topic_id": pl.Int32, "topic": pl.String})
    for shard in (shard for config in ("chat", "bench") for shard in shard_files(folder, config)):
        topics = (rows.select(named.columns).unique() for rows in read_parquet_groups(shard, named.columns))
        named = pl.concat([named, *topics]).unique().drop_nulls("topic_id")
    for column, other in (("topic_id", "topic"), ("topic", "topic_id")):
        # A row is a value that stands beside several others; `named` has each pair once.
        for (value,) in named.filter(pl.col(column).is_duplicated()).select(column).unique().sort(column).iter_rows():
            yield f"{column} {value!r} has more than one {other}"


def moved_points(old: Path, new: Path) -> Iterator[str]:
    """One sentence when rows of both releases have another place on the map; nothing when a release has no map."""
    if not ((old / MAP).is_file() and (new / MAP).is_file()):
        return
    old_points, new_points = (
        pl.concat([_no_points(), *read_parquet_groups(folder / MAP, _no_points().columns)]) for folder in (old, new)
    )
    # A row is one that both releases have, with both of its places.
    both = old_points.join(new_points, on=["config", "id"], suffix="_new")
    is_moved = (pl.col("x") != pl.col("x_new")) | (pl.col("y") != pl.col("y_new"))
    if count := both.filter(is_moved).height:
        yield f"topic map: {count:,} rows of both releases have another place"


def _no_points() -> pl.DataFrame:
    return pl.DataFrame(
        schema={"config": pl.String, "id": pl.String, "topic_id": pl.Int32, "x": pl.Float32, "y": pl.Float32}
    )


def _rows(folder: Path) -> Iterator[pl.DataFrame]:
    """config, id and topic_id of every released row; null where it is released without a topic."""
    yield _no_points().select("config", "id", "topic_id")
    for config in CONFIGS:
        for shard in shard_files(folder, config):
            names = [ROW_KEYS[config], *(["topic_id"] if "topic_id" in CONFIGS[config].model_fields else [])]
            for group in read_parquet_groups(shard, names):
                topic = pl.col("topic_id") if "topic_id" in group.columns else pl.lit(None, pl.Int32)
                yield group.select(config=pl.lit(config), id=ROW_KEYS[config], topic_id=topic)


def _write_boards(unsealed: Unsealed) -> Stated:
    if not is_benchmark_alone(unsealed.folder):
        write_leaderboards(unsealed.store.read("ratings"), unsealed.folder)
    return Stated()


def _write_runners(unsealed: Unsealed) -> Stated:
    for name, content in RUNNERS.items() if unsealed.counts["bench"] else ():
        path = unsealed.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return Stated()


def _wrong_runners(release: OpenRelease) -> Iterator[str]:
    """A problem for each file for other runners that is not, byte for byte, one that we wrote: readers run them."""
    for name, content in RUNNERS.items():
        path = release.folder / name
        if not path.is_file():
            if release.manifest.counts["bench"] and release.manifest.layout >= _RUNNERS_SINCE:
                yield f"{name}: missing"
        elif (on_disk := path.read_bytes()) != content.encode() and sha256(on_disk).hexdigest() not in _EARLIER_RUNNERS:
            yield f"{name}: not what this version writes; do not run it"


_SERVED = """
    -- a row is one conversation as it would be released, with what the log says of how its answers came
    SELECT conversation_id, served FROM released WHERE served IS NOT NULL
"""


def _write_thinking(unsealed: Unsealed) -> Stated:
    if not unsealed.policy.release_thinking:
        return Stated()
    columns = ["battle_id", "conversation_a", "conversation_b", "turns_a", "turns_b"]
    sides = unsealed.store.read("battles", columns)
    battles = _released(unsealed.folder, "battle").join(
        sides, left_on="id", right_on="battle_id", maintain_order="left"
    )
    chat = _released(unsealed.folder, "chat").with_columns(
        side=pl.lit(None, pl.String), conversation_id="id", turns=pl.lit(None, pl.Int32)
    )
    conversations = [chat] + [
        battles.select(
            "config", "id", side=pl.lit(letter), conversation_id=f"conversation_{letter}", turns=f"turns_{letter}"
        )
        for letter in "ab"
    ]
    thoughts = [frame_of(ReleasedThinking, [])]
    require_redactions(unsealed.store)
    for rows in unsealed.store.batches(_SERVED):
        # A row is one answer with what its model thought aloud; answers without are left out.
        thoughts_of_rows = rows.explode("served").drop_nulls("served").unnest("served").drop_nulls("thinking")
        released_thoughts = thoughts_of_rows.join(pl.concat(conversations), on="conversation_id")
        until_vote = pl.col("turns").is_null() | (pl.col("turn") < 2 * pl.col("turns"))
        thoughts.append(released_thoughts.filter(until_vote).select(thoughts[0].columns))
    write_table(unsealed.folder, _THINKING, pl.concat(thoughts).sort("config", "id", "side", "turn"))
    return Stated()


def _released(folder: Path, config: str) -> pl.DataFrame:
    """Configuration and id of the released rows."""
    groups = (rows for shard in shard_files(folder, config) for rows in read_parquet_groups(shard, [ROW_KEYS[config]]))
    named = [pl.DataFrame(schema={"config": pl.String, "id": pl.String})]
    return pl.concat([*named, *(rows.select(config=pl.lit(config), id=ROW_KEYS[config]) for rows in groups)])


def _wrong_thinking(release: OpenRelease) -> Iterator[str]:
    """Problems of the file: against the policy, of rows that are not released, or with personal data."""
    policy = Policy.model_validate(release.manifest.policy)
    try:
        rows = read_released(release.folder, _THINKING)
    except READ_ERRORS as error:
        yield f"{THINKING}: its pages cannot be read ({type(error).__name__})"
        return
    if policy.release_thinking == (rows is None):
        yield f"{THINKING}: it is {'missing' if rows is None else 'there'}, against the policy (release_thinking)"
    if rows is None:
        return
    released_rows = pl.concat(_released(release.folder, config) for config in ("chat", "battle"))
    if count := rows.join(released_rows, on=["config", "id"], how="anti").height:
        yield f"{THINKING}: {count:,} rows are of no released row"
    yield from wrong_texts(THINKING, rows["thinking"], forbidden_data(policy, ["assistant"]))


def _thinking_section(folder: Path, _: int) -> str:
    rows = read_released(folder, _THINKING)
    if rows is None:
        return ""
    return f"""{_THINKING_TITLE}

`{THINKING}` has what models thought aloud before answers, in {rows.height:,} rows. It is no part of the answers, and
was screened like them.

"""


RELEASED_THINKING = ReleasePart(
    (_THINKING,),
    _write_thinking,
    _wrong_thinking,
    section=CardSection(_THINKING_TITLE, "thinking", THINKING, _thinking_section, _THINKING_SINCE),
)
"""The part of a release with thinking."""


CORE_PARTS = (
    ReleasePart(("leaderboard",), _write_boards, wrong_boards),
    CHECKED_VOTES,
    FRAGILE,
    CERTIFICATE_PART,
    ReleasePart(("topics",), wrong=wrong_points, changed=moved_points),  # `MapFile` writes it with the shards
    ReleasePart(write=_write_runners, wrong=_wrong_runners),
    RELEASED_THINKING,
    KNOWN_PART,
    *ROW_FIGURES,
    CROISSANT_PART,
    CITED,
    DATA_PAGE,
)
"""The parts that every release has."""
