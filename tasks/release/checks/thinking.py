"""The file of what models thought aloud: only under a policy that releases it, which screens it like the answers."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from schemas.policy import Policy
from schemas.release import KEYS, ReleasedThinking
from tasks.release.contents import forbidden_data, wrong_texts
from tasks.release.declared import READ_ERRORS
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
from tasks.storage.parquet import read_parquet_groups
from tasks.storage.queries.released import released_slices
from tasks.storage.tables import frame_of

_TABLE, _TITLE, _SINCE_LAYOUT = "thinking", "## Thinking", 8
THINKING = path_in_release(_TABLE)


def _write(unsealed: Unsealed) -> Stated:
    if not unsealed.policy.release_thinking:
        return Stated()
    sides = unsealed.store.read("battles", ["battle_id", "conversation_a", "conversation_b"])
    battles = _released(unsealed.folder, "battle").join(
        sides, left_on="id", right_on="battle_id", maintain_order="left"
    )
    chat = _released(unsealed.folder, "chat").with_columns(side=pl.lit(None, pl.String), conversation_id="id")
    shown = [chat] + [
        battles.select("config", "id", side=pl.lit(letter), conversation_id=f"conversation_{letter}") for letter in "ab"
    ]
    found = [frame_of(ReleasedThinking, [])]
    for rows in released_slices(unsealed.store, ["conversation_id", "served"]):
        told = rows.explode("served").drop_nulls("served").unnest("served").drop_nulls("thinking")
        found.append(told.join(pl.concat(shown), on="conversation_id").select(found[0].columns))
    write_table(unsealed.folder, _TABLE, pl.concat(found).sort("config", "id", "side", "turn"))
    return Stated()


def _released(folder: Path, config: str) -> pl.DataFrame:
    """Configuration and id of the released rows."""
    groups = (rows for shard in shard_files(folder, config) for rows in read_parquet_groups(shard, [KEYS[config]]))
    named = [pl.DataFrame(schema={"config": pl.String, "id": pl.String})]
    return pl.concat([*named, *(rows.select(config=pl.lit(config), id=KEYS[config]) for rows in groups)])


def _wrong(release: OpenRelease) -> Iterator[str]:
    """Problems of the file: against the policy, of rows that are not released, or with personal data."""
    policy = Policy.model_validate(release.manifest.policy)
    try:
        rows = read_released(release.folder, _TABLE)
    except READ_ERRORS as error:
        yield f"{THINKING}: its pages cannot be read ({type(error).__name__})"
        return
    if policy.release_thinking == (rows is None):
        yield f"{THINKING}: it is {'missing' if rows is None else 'there'}, against the policy (release_thinking)"
    if rows is None:
        return
    shown = pl.concat(_released(release.folder, config) for config in ("chat", "battle"))
    if count := rows.join(shown, on=["config", "id"], how="anti").height:
        yield f"{THINKING}: {count:,} rows are of no released row"
    yield from wrong_texts(THINKING, rows["thinking"], forbidden_data(policy))


def _section(folder: Path, _: int) -> str:
    rows = read_released(folder, _TABLE)
    if rows is None:
        return ""
    return f"""{_TITLE}

`{THINKING}` has what models thought aloud before answers, in {rows.height:,} rows. It is no part of the answers, and
was screened like them.

"""


RELEASED_THINKING = ReleasePart(
    (_TABLE,), _write, _wrong, section=CardSection(_TITLE, "thinking", THINKING, _section, _SINCE_LAYOUT)
)
"""The part of a release with thinking."""
