"""The part of a release that says which of its rows hold a picture or a question of known benchmarks.

In: the store's `known_matches` and the released shards. Out: `known_benchmarks/rows.parquet`, by which a reader leaves
such rows out, and a section of the card that counts them by benchmark. Nothing is written where no benchmark is named.
The name of a benchmark is its folder's or data set's, so it is searched for personal data like any released text.
"""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from schemas.policy import Policy
from schemas.release import CONFIGS, ROW_KEYS
from tasks.release.contents import READ_ERRORS, forbidden_data, wrong_texts
from tasks.release.registered import (
    CardSection,
    OpenRelease,
    ReleasePart,
    Stated,
    Unsealed,
    path_in_release,
    read_released,
    write_table,
)
from tasks.release.shards import shard_files
from tasks.runtime.untrusted import markdown_text
from tasks.storage.parquet import read_parquet_groups

_TABLE, _TITLE, _SINCE = "known_benchmarks", "## Known benchmarks in it", 11
KNOWN_ROWS = path_in_release(_TABLE)
_OF_CONFIGS = ("chat", "battle", "bench")


def _write(unsealed: Unsealed) -> Stated:
    store = unsealed.store
    if store.height("known_sources") == 0:
        return Stated()
    matches = store.read("known_matches", ["conversation_id", "benchmark", "picture", "question"])
    matched_parts = matches.with_columns(pl.col("picture", "question").is_not_null())
    sides = store.read("battles", ["battle_id", "conversation_a", "conversation_b"])
    of_battles = sides.unpivot(["conversation_a", "conversation_b"], index="battle_id", value_name="conversation_id")
    released = _released(unsealed.folder)
    is_battle = pl.col("config") == "battle"
    # A row is a released row and one of its conversations, then what that holds of a benchmark.
    of_conversations = pl.concat([
        released.filter(~is_battle).with_columns(conversation_id="id"),
        released.filter(is_battle).join(of_battles.drop("variable"), left_on="id", right_on="battle_id"),
    ])  # fmt: skip
    rows = of_conversations.join(matched_parts, on="conversation_id").group_by("config", "id", "benchmark")
    either_side = rows.agg(pl.col("picture", "question").any())
    write_table(unsealed.folder, _TABLE, either_side.sort("config", "id", "benchmark"))
    return Stated()


def _released(folder: Path) -> pl.DataFrame:
    """Configuration and id of each released row."""
    frames = [pl.DataFrame(schema={"config": pl.String, "id": pl.String})]
    for config in _OF_CONFIGS:
        for shard in shard_files(folder, config):
            groups = read_parquet_groups(shard, [ROW_KEYS[config]])
            frames += [rows.select(config=pl.lit(config), id=ROW_KEYS[config]) for rows in groups]
    return pl.concat(frames)


def _wrong(release: OpenRelease) -> Iterator[str]:
    """Problems of the file: it cannot be read, tells of rows that are not there, or twice, or names somebody."""
    try:
        rows = read_released(release.folder, _TABLE)
    except READ_ERRORS as error:
        yield f"{KNOWN_ROWS}: its pages cannot be read ({type(error).__name__})"
        return
    if rows is None:
        return
    if count := rows.join(_released(release.folder), on=["config", "id"], how="anti").height:
        yield f"{KNOWN_ROWS}: {count:,} rows are of no released row"
    if count := rows.height - rows.unique(["config", "id", "benchmark"]).height:
        yield f"{KNOWN_ROWS}: {count:,} rows are there twice"
    if count := rows.filter(~pl.col("picture") & ~pl.col("question")).height:
        yield f"{KNOWN_ROWS}: {count:,} rows hold neither a picture nor a question"
    yield from wrong_texts(KNOWN_ROWS, rows["benchmark"].unique(), forbidden_data(Policy(**release.manifest.policy)))


def _section(folder: Path, _: int) -> str:
    rows = read_released(folder, _TABLE)
    if rows is None:
        return ""
    shows, asks = pl.col("picture"), pl.col("question")
    counted = rows.group_by("benchmark", "config").agg(
        picture=shows.sum(), question=asks.sum(), both=(shows & asks).sum()
    )
    order = pl.col("config").replace_strict({config: place for place, config in enumerate(CONFIGS)})
    lines = [
        f"| {markdown_text(benchmark)} | `{config}` | {picture:,} | {question:,} | {both:,} |"
        for benchmark, config, picture, question, both in counted.sort("benchmark", order).iter_rows()
    ]
    table = "\n".join(lines) or "| none | | 0 | 0 | 0 |"
    return f"""{_TITLE}

Rows that show a picture of a known benchmark, or ask its question, are in `{KNOWN_ROWS}`; leave them out before
training a model that this benchmark is to measure. A match is a sign, and no proof: pictures are compared by hashes
and embeddings, never by name, and who asked may not have known the benchmark.

| benchmark | configuration | rows that show a picture | that ask a question | that do both |
|---|---|--:|--:|--:|
{table}

"""


KNOWN_PART = ReleasePart(
    (_TABLE,),
    _write,
    _wrong,
    section=CardSection(_TITLE, "known benchmarks", KNOWN_ROWS, _section, _SINCE),
)
"""The part of a release about known benchmarks."""
