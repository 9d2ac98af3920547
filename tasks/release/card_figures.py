"""Sections of the card that are counted from the rows: categories and votes, and what a stranger could join.

`curate verify` counts them again, and checks that the rows are as coarse as the policy's `linkage` says.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import polars as pl

from schemas.policy import Linkage, Policy
from schemas.release import CONFIGS, KEYS
from tasks.release.registered import CardSection, OpenRelease, ReleasePart
from tasks.release.shards import shard_files
from tasks.storage.parquet import read_parquet_groups, together
from tasks.storage.tables import frame_of

PEOPLE = {"chat": "user_id", "battle": "judge"}
"""Configuration -> the column with the keyed hash of a person."""
MODELS = {"chat": ["model"], "battle": ["model_a", "model_b"]}
_SPOKEN = {"chat": "conversation", "battle": "conversation_a"}
FEW_ROWS = 5
_ASKED = pl.element().struct.field("content").filter(pl.element().struct.field("role") == "user")
_UNITS = {"hour": "1h", "day": "1d", "month": "1mo"}


def unlinked(rows: pl.DataFrame, config: str, linkage: Linkage) -> pl.DataFrame:
    """Rows with times as coarse as the policy says, in an order that tells no more of them."""
    if not linkage.users and config in PEOPLE:
        rows = rows.with_columns(pl.lit(None, pl.String).alias(PEOPLE[config]))
    if linkage.times == "exact" or "tstamp" not in rows.columns:
        return rows
    return rows.with_columns(_coarse(linkage)).sort("tstamp", KEYS[config])


def _coarse(linkage: Linkage) -> pl.Expr:
    """Seconds since 1970 of the beginning of the hour, day or month (UTC)."""
    time = pl.from_epoch((pl.col("tstamp") * 1e6).cast(pl.Int64), "us").dt.truncate(_UNITS[linkage.times])
    return (time.dt.timestamp("us") / 1e6).alias("tstamp")


def _wrong_linkage(release: OpenRelease) -> Iterator[str]:
    """Problems of rows with finer times, or with people, than the policy in the manifest says."""
    linkage = Policy.model_validate(release.manifest.policy).linkage
    for config, person in PEOPLE.items() if linkage != Linkage() else ():
        rows = _columns(release.folder, config, ["tstamp", person])
        if linkage.times != "exact" and not rows.equals(rows.with_columns(_coarse(linkage))):
            yield f"{config}: a time is finer than to the {linkage.times}, as the policy says (linkage.times)"
        if not linkage.users and rows[person].null_count() < rows.height:
            yield f"{config}: {person} is there, and the policy says that it is not (linkage.users)"


def _columns(folder: Path, config: str, names: list[str], *made: pl.Expr) -> pl.DataFrame:
    """Some columns of all rows, or what `made` makes of them."""
    shards = shard_files(folder, config)
    groups = (group for path in shards for group in read_parquet_groups(path, names))
    return pl.concat(rows.select(*made or names) for rows in chain([frame_of(CONFIGS[config], [])], together(groups)))


def _joinable(folder: Path, _: int) -> str:
    told = {config: _told(folder, config) for config in PEOPLE}
    counts = {config: _counted(rows) for config, rows in told.items() if rows.height}
    if not counts:
        return ""
    lines = [
        f"| {what} | {' | '.join(f'{of[what]:,}' for of in counts.values())} |" for what in next(iter(counts.values()))
    ]
    heard, voted = (rows["person"] for rows in told.values())
    both = heard.filter(heard.is_in(voted.drop_nulls().implode())).n_unique()
    return f"""{JOINABLE}

Who knows something about a person, such as when they wrote, in which language or about what, may find their row, and by
the keyed hash their other rows: {both:,} people have rows of several configurations. The policy can take out hashes and
coarsen times (`linkage`).

| | {" | ".join(f"`{config}`" for config in counts)} |
|---|{"--:|" * len(counts)}
{chr(10).join(lines)}

"""


def _told(folder: Path, config: str) -> pl.DataFrame:
    """The person and time of every row, and hashes of its prompt and of its language with each model."""
    person, spoken, models = PEOPLE[config], _SPOKEN[config], MODELS[config]
    pairs = pl.concat_list(pl.struct("language", model).hash() for model in models)
    prompt = pl.col(spoken).list.eval(_ASKED).list.join("\n\n").hash()
    made = {"person": pl.col(person), "tstamp": pl.col("tstamp"), "pairs": pairs, "prompt": prompt}
    names = [person, "tstamp", "language", *models, spoken]
    return _columns(folder, config, names, *(each.alias(name) for name, each in made.items()))


def _counted(rows: pl.DataFrame) -> dict[str, int]:
    users = rows.select("person").drop_nulls().group_by("person").len()["len"]
    spread = rows.select("pairs").with_row_index().explode("pairs").with_columns(rows=pl.len().over("pairs"))
    rare = spread.filter(pl.col("rows") <= FEW_ROWS)["index"]
    return {
        "people": users.len(),
        "people with one row": int((users == 1).sum()),
        f"people with two to {FEW_ROWS} rows": int(users.is_between(2, FEW_ROWS).sum()),
        "rows with a time that no other row has": int(rows["tstamp"].drop_nulls().is_unique().sum()),
        f"rows of a language and a model with at most {FEW_ROWS} rows": rare.n_unique(),
        "rows with a prompt that no other row has": int(rows["prompt"].is_unique().sum()),
    }


def _categories(folder: Path, _: int) -> str:
    """A line for each category and vote: rows that have it, of those where it is known."""
    told: dict[str, dict[str, str]] = {}
    votes = pl.Series("winner", [], pl.String)
    for config, row in CONFIGS.items():
        rows = _columns(folder, config, ["categories", *({"winner"} & {*row.model_fields})])
        votes = rows.get_column("winner", default=votes)
        for tag in rows["categories"].struct.unnest() if rows.height else ():
            told.setdefault(tag.name, {})[config] = f"{tag.sum():,} of {tag.count():,}"
    for winner, count in votes.value_counts(name="votes").sort("winner").iter_rows():
        told[f"vote: {winner}"] = {"battle": f"{count:,}"}
    shown = [config for config in CONFIGS if any(config in counts for counts in told.values())]
    lines = [f"| {name} | {' | '.join(counts.get(config, '') for config in shown)} |" for name, counts in told.items()]
    return f"""{CATEGORIES}

Rows that have a category, of those where it is known.

| | {" | ".join(f"`{config}`" for config in shown)} |
|---|{"--:|" * len(shown)}
{chr(10).join(lines)}

"""


_COUNT = "a count of the rows"
JOINABLE, CATEGORIES = "## What a stranger could join", "## Categories and votes"
ROW_FIGURES = (
    ReleasePart(section=CardSection(CATEGORIES, "categories and votes", _COUNT, _categories, 6)),
    ReleasePart(
        wrong=_wrong_linkage, section=CardSection(JOINABLE, "what a stranger could join", _COUNT, _joinable, 6)
    ),
)
"""Parts of every release."""
