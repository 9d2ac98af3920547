"""Writes the dataset card, with the columns of VisionArena's Table 1, and its sections that are counted from the rows.

They are categories and votes, and what a stranger could join. `curate verify` counts them again, and checks that the
rows are as coarse as the policy's `linkage` says.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
import yaml

from schemas.policy import Linkage, Policy
from schemas.release import CONFIGS, ROW_KEYS, Manifest
from schemas.run import Funnel
from tasks.release.registered import CardSection, OpenRelease, ReleasePart, is_benchmark_alone, read_released
from tasks.release.shards import shard_files
from tasks.runtime.untrusted import markdown_text, parse_yaml, yaml_text
from tasks.storage.parquet import read_parquet_groups, together
from tasks.storage.queries.conversation_features import language_code
from tasks.storage.records import reason_texts
from tasks.storage.tables import frame_of

PERSON_COLUMNS = {"chat": "user_id", "battle": "judge"}
"""Configuration -> the column with the keyed hash of a person."""
MODEL_COLUMNS = {"chat": ["model"], "battle": ["model_a", "model_b"]}
_SPOKEN = {"chat": "conversation", "battle": "conversation_a"}
FEW_ROWS = 5
_PATH = pl.element().struct.field("path")
_ASKED = pl.element().struct.field("content").filter(pl.element().struct.field("role") == "user")
_ORDER_SINCE = 12
"""Releases of an earlier layout have the order of exact times from block to block."""
_UNITS = {"hour": "1h", "day": "1d", "month": "1mo"}


def unlinked(rows: pl.DataFrame, config: str, linkage: Linkage) -> pl.DataFrame:
    """Rows with times as coarse as the policy says, in an order that tells no more of them."""
    if not linkage.users and config in PERSON_COLUMNS:
        rows = rows.with_columns(pl.lit(None, pl.String).alias(PERSON_COLUMNS[config]))
    if linkage.times == "exact" or "tstamp" not in rows.columns:
        return rows
    return rows.with_columns(_coarse(linkage)).sort("tstamp", ROW_KEYS[config])


def _coarse(linkage: Linkage) -> pl.Expr:
    """Seconds since 1970 of the beginning of the hour, day or month (UTC)."""
    time = pl.from_epoch((pl.col("tstamp") * 1e6).cast(pl.Int64), "us").dt.truncate(_UNITS[linkage.times])
    return (time.dt.timestamp("us") / 1e6).alias("tstamp")


def _wrong_linkage(release: OpenRelease) -> Iterator[str]:
    """Problems of rows with finer times, an order by them, or with people, than the policy in the manifest says.

    A time that is none, such as NaN, is told with the rows, and then nobody asks here.
    """
    linkage = Policy.model_validate(release.manifest.policy).linkage
    for config, person in PERSON_COLUMNS.items() if linkage != Linkage() else ():
        rows = _columns(release.folder, config, ["tstamp", person, ROW_KEYS[config]])
        if linkage.times != "exact" and not rows.equals(rows.with_columns(_coarse(linkage))):
            yield f"{config}: a time is finer than to the {linkage.times}, as the policy says (linkage.times)"
        elif linkage.times != "exact" and release.manifest.layout >= _ORDER_SINCE and not _is_ordered(rows, config):
            yield f"{config}: its rows are in another order than by {linkage.times} and id, which may tell finer times"
        if not linkage.users and rows[person].null_count() < rows.height:
            yield f"{config}: {person} is there, and the policy says that it is not (linkage.users)"


def _is_ordered(rows: pl.DataFrame, config: str) -> bool:
    """Whether rows stand in the order of their times, of equal times by id."""
    keys = rows.select("tstamp", ROW_KEYS[config])
    return keys.equals(keys.sort("tstamp", ROW_KEYS[config]))


def _columns(folder: Path, config: str, names: list[str], *expressions: pl.Expr) -> pl.DataFrame:
    """Some columns of all rows, or what `expressions` make of them."""
    shards = shard_files(folder, config)
    groups = (group for path in shards for group in read_parquet_groups(path, names))
    frames = [rows.select(*expressions or names) for rows in together(groups)]
    return pl.concat(frames or [frame_of(CONFIGS[config], []).select(*expressions or names)])


def _joinable(folder: Path, _: int) -> str:
    rows_by_config = {config: _told(folder, config) for config in PERSON_COLUMNS}
    counts = {config: _counted(rows) for config, rows in rows_by_config.items() if rows.height}
    if not counts:
        return ""
    lines = [
        f"| {what} | {' | '.join(f'{numbers[what]:,}' for numbers in counts.values())} |"
        for what in next(iter(counts.values()))
    ]
    heard, voted = (rows["person"] for rows in rows_by_config.values())
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
    person, spoken, models = PERSON_COLUMNS[config], _SPOKEN[config], MODEL_COLUMNS[config]
    pairs = pl.concat_list(pl.struct("language", model).hash() for model in models)
    # A row is the hash of all messages of the user: equal prompts are counted, and their texts not kept.
    prompt = pl.col(spoken).list.eval(_ASKED).list.join("\n\n").hash()
    columns = {"person": pl.col(person), "tstamp": pl.col("tstamp"), "pairs": pairs, "prompt": prompt}
    names = [person, "tstamp", "language", *models, spoken]
    return _columns(folder, config, names, *(expression.alias(name) for name, expression in columns.items()))


def _counted(rows: pl.DataFrame) -> dict[str, int]:
    # A row is one person, as the number of their rows.
    users = rows.select("person").drop_nulls().group_by("person").len()["len"]
    # A row is a released row and one of its pairs of language and model, with how many rows have that pair.
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
    cells_of_name: dict[str, dict[str, str]] = {}
    alone = is_benchmark_alone(folder)
    votes = pl.Series("winner", [], pl.String)
    for config, row in CONFIGS.items():
        rows = _columns(folder, config, ["categories", *({"winner"} & {*row.model_fields})])
        votes = rows.get_column("winner", default=votes)
        for tag in rows["categories"].struct.unnest() if rows.height else ():
            if tag.sum() or not alone:
                cells_of_name.setdefault(tag.name, {})[config] = f"{tag.sum():,} of {tag.count():,}"
    for winner, count in votes.value_counts(name="votes").sort("winner").iter_rows():
        cells_of_name[f"vote: {winner}"] = {"battle": f"{count:,}"}
    if alone and not cells_of_name:
        return ""
    configs = [config for config in CONFIGS if any(config in counts for counts in cells_of_name.values())]
    lines = [
        f"| {name} | {' | '.join(counts.get(config, '') for config in configs)} |"
        for name, counts in cells_of_name.items()
    ]
    return f"""{CATEGORIES_TITLE}

Rows that have a category, of those where it is known.

| | {" | ".join(f"`{config}`" for config in configs)} |
|---|{"--:|" * len(configs)}
{chr(10).join(lines)}

"""


_COUNT = "a count of the rows"
JOINABLE, CATEGORIES_TITLE = "## What a stranger could join", "## Categories and votes"
ROW_FIGURES = (
    ReleasePart(section=CardSection(CATEGORIES_TITLE, "categories and votes", _COUNT, _categories, 6)),
    ReleasePart(
        wrong=_wrong_linkage, section=CardSection(JOINABLE, "what a stranger could join", _COUNT, _joinable, 6)
    ),
)
"""Parts of every release."""


TITLE, BENCH_TITLE = "Vision arena conversations", "Vision arena benchmark"
LIMITS_OF_VOTES = [
    "`user_id` and `judge` are keyed hashes of network addresses: one person may have several, and several one.",
    "Ratings of models marked `few_battles`, `only_wins`, `only_losses`, `unbounded` or `separate_group` are "
    "unreliable.",
]
"""Known limits of releases with conversations or votes."""
KNOWN_LIMITS = (
    "Near-duplicates are found by perceptual hashes and thumbnails, under some policies also by embeddings; crops and "
    "larger edits remain.",
    "Languages and categories are machine-made; null means unknown.",
)
_SIZES = (
    (10**3, "n<1K"),
    (10**4, "1K<n<10K"),
    (10**5, "10K<n<100K"),
    (10**6, "100K<n<1M"),
    (10**7, "1M<n<10M"),
    (10**8, "10M<n<100M"),
)
"""The Hub's size categories: (row limit, name)."""
UNKNOWN_CELL = "–"
CARD_TEMPLATE = Path(__file__).with_suffix(".md")

_ANSWERS = {"chat": ["conversation"], "battle": ["conversation_a", "conversation_b"]}
COMPARED = tuple(PERSON_COLUMNS)
"""Configurations that have a row in the table."""
_IS_ANSWER = (pl.element().struct.field("role") == "assistant").cast(pl.Int64)


def dataset_card(
    manifest: Manifest,
    funnel: Funnel,
    statistics: Mapping[str, tuple[str, ...]],
    bench: Mapping[str, Sequence[Mapping[str, Any]]],
    sections: str = "",
    benchmarks: Sequence[str] = (),
) -> str:
    """README.md of a release.

    `statistics`: configuration -> cells of the statistics table. `bench`: rows of bench_funnel, bench_measures and
    bench_agreement. `sections`: those that only some releases have. `benchmarks`: `benchmark_names`.
    """
    policy = Policy.model_validate(manifest.policy)
    texts = reason_texts(policy)
    schemas = {name: CONFIGS[name] for name in configs_with_rows(manifest.counts)}
    return render_card(
        CARD_TEMPLATE,
        front_matter=front_matter(about_release(manifest, benchmarks)),
        benchmarks=[markdown_text(name) for name in benchmarks],
        manifest=manifest,
        funnel=funnel,
        statistics=[(dataset_name(config), *statistics[config]) for config in schemas if config in statistics],
        bench=bench,
        sections=sections,
        schemas=[*schemas],
        removed=[
            (f"{outcome}: {reason}", f"{lines:,}", markdown_text(texts.get(reason, ""), characters_max=400))
            for outcome, reason, lines in funnel.reasons()
        ],
        agreement=list(_agreement(bench["bench_agreement"])),
        funnel_line=funnel_line(funnel, bool(benchmarks)),
        unmeasured=unmeasured_line(manifest),
        contact=markdown_text(manifest.policy.get("contact") or ""),
        models=[*_named_versions(policy)],
        limits=limits_of(manifest),
    )


def _named_versions(policy: Policy) -> Iterator[list[str]]:
    """Cells of each model whose facts the policy has: name, version, maker, licence and day."""
    for name, facts in sorted(policy.models.items()):
        cells = (facts.version, facts.provider, facts.licence, facts.since and facts.since.isoformat())
        yield [markdown_text(name), *(markdown_text(cell) if cell else UNKNOWN_CELL for cell in cells)]


def language_codes(manifest: Manifest) -> list[str]:
    """ISO 639 codes of the languages of the rows, sorted; none in a manifest that does not count them."""
    return sorted({code for name in manifest.languages if (code := language_code(name))})


def title_of(manifest: Manifest) -> str:
    """The title of a release: of conversations, or of a benchmark alone."""
    return BENCH_TITLE if is_benchmark(manifest) else TITLE


def is_benchmark(manifest: Manifest) -> bool:
    """Whether a release has items of a benchmark, and no conversation and no vote."""
    return bool(manifest.counts["bench"]) and not manifest.counts["chat"] + manifest.counts["battle"]


def limits_of(manifest: Manifest) -> list[str]:
    """The known limits of what a release holds."""
    of_votes = [] if is_benchmark(manifest) else LIMITS_OF_VOTES
    return [*of_votes, *KNOWN_LIMITS]


def about_release(manifest: Manifest, benchmarks: Sequence[str] = ()) -> dict[str, Any]:
    """The front matter of a card. `benchmarks`: `benchmark_names`."""
    name, tags = TITLE, ["arena", "human-preference", "vision-language"]
    rows = manifest.counts["chat"] + manifest.counts["battle"]
    if benchmarks:
        name, tags, rows = f"Benchmark {' and '.join(benchmarks)}", ["vision-language"], manifest.counts["bench"]
    codes = language_codes(manifest)
    return {
        "pretty_name": name,
        "license": manifest.policy.get("licence") or "other",
        **({"language": codes} if codes else {}),
        "task_categories": ["image-text-to-text", "visual-question-answering"],
        "tags": tags,
        "size_categories": [size_category(rows)],
        "configs": data_files(manifest.counts),
    }


def benchmark_names(folder: Path) -> list[str]:
    """Names of the benchmarks that a release consists of, sorted; none for a release with conversations or votes."""
    if not is_benchmark_alone(folder):
        return []
    items = [read_released(folder, table) for table in ("written", "generated")]
    # A row is an item, which names its benchmark; a release may lack either table.
    return sorted({name for rows in items if rows is not None for name in rows["bench"]})


def benchmark_cells(folder: Path) -> dict[str, tuple[str, ...]]:
    """`bench` -> cells of its row in the statistics table, for a release that is a benchmark alone; else none."""
    if not is_benchmark_alone(folder):
        return {}
    rows = _columns(folder, "bench", ["images.list.element.path"], pl.col("images").list.eval(_PATH))
    images = rows["images"].explode().drop_nulls().n_unique()
    unique = _mean(100 * images, rows.height, 1)
    return {
        "bench": (f"{rows.height:,}", *[UNKNOWN_CELL] * 3, f"{images:,}", unique, "1.00", *[UNKNOWN_CELL] * 2, "no")
    }


def card_sections(release: Path, prompts: int, parts: Sequence[ReleasePart]) -> str:
    """The sections that only some releases have, from the files of the release alone. `prompts`: those of `bench`."""
    return "".join(part.section.text(release, prompts) for part in parts if part.section)


def render_card(template: Path, **words: Any) -> str:
    """A card from a Jinja template. Untrusted text in `words` must have gone through `markdown_text`."""
    return _compiled(template.read_text(encoding="utf-8")).render(words)


@cache
def _compiled(template: str) -> jinja2.Template:
    """The template of this text, compiled once a process: a check of a release renders its card several times."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True)  # noqa: S701 - Markdown, not HTML
    return environment.from_string(template)


def _agreement(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    """(metric, reference, benchmark draws, random draws); the last two as mean and 95 % interval."""
    named = {(row["reference"], row["metric"], row["sample"]): row for row in rows}
    for reference, metric in dict.fromkeys((row["reference"], row["metric"]) for row in rows):
        both = (named.get((reference, metric, sample)) for sample in ("bench", "random"))
        cells = (f"{row['mean']:.3f} ({row['low']:.3f} to {row['high']:.3f})" if row else "–" for row in both)
        yield (metric, reference, *cells)


def size_category(rows: int) -> str:
    """The Hub's size category for a number of rows."""
    return next((name for limit, name in _SIZES if rows < limit), "100M<n<1B")


def front_matter(about: Mapping[str, Any]) -> str:
    """Front matter of a card: YAML between `---` lines."""
    return f"---\n{yaml_text(dict(about))}---\n"


def split_card(card: str) -> tuple[dict[str, Any], str]:
    """(front matter, text) of a card. Raises ValueError when it has no valid front matter."""
    opening, front, text = card.split("---\n", 2)
    try:
        about = parse_yaml(front)
    except yaml.YAMLError as error:
        raise ValueError("no YAML") from error
    if opening or not isinstance(about, dict):
        raise ValueError("no front matter")
    return about, text


def configs_with_rows(counts: Mapping[str, int]) -> list[str]:
    """The configurations that `datasets` can load: it refuses one without rows."""
    return [name for name in CONFIGS if counts.get(name)]


def data_files(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """The `configs` of the front matter; the first one with rows is the default. `counts` are the rows of each."""
    configs: list[dict[str, Any]] = [
        {"config_name": name, "data_files": [{"split": "train", "path": f"{name}/data/train-*.parquet"}]}
        for name in configs_with_rows(counts)
    ]
    return [config | {"default": True} if place == 0 else config for place, config in enumerate(configs)]


def dataset_name(config: str) -> str:
    """Name of a configuration of this release in the statistics table."""
    return f"**this release, {config}**"


def funnel_line(gone: Funnel, benchmark_alone: bool = False) -> str:
    """The sentence with the funnel's totals, of items in a release that is a benchmark alone, else of log lines."""
    things = "items" if benchmark_alone else "log lines"
    return f"{gone.lines:,} {things} = {gone.kept:,} kept + {gone.dropped:,} dropped + {gone.rejected:,} rejected."


class Statistics:
    """One configuration's row of the table, from rows added in parts. Memory: about 100 bytes for each id."""

    def __init__(self, config: str) -> None:
        self._config = config
        self._distinct: dict[str, set[int]] = {name: set() for name in ("models", "users", "languages", "images")}
        """Column of the table -> 64-bit hashes of its values."""
        self._rows = self._turns = self._answers = 0
        self._tokens: list[int | None] = [0, 0]

    def add(self, rows: pl.DataFrame) -> None:
        """Add gathered rows, which have `image_ids`, and for chat token counts."""
        values = {
            "models": pl.concat([rows[name] for name in MODEL_COLUMNS[self._config]]),
            "users": rows[PERSON_COLUMNS[self._config]],
            "languages": rows["language"].filter(rows["language"] != "unknown"),
            "images": rows["image_ids"].explode(),
        }
        for name, column in values.items():
            self._distinct[name].update(column.drop_nulls().unique().hash())
        self._rows += rows.height
        self._turns += int(rows["num_turns"].sum())
        self._answers += sum(int(rows[name].list.eval(_IS_ANSWER).list.sum().sum()) for name in _ANSWERS[self._config])
        for place, tokens in enumerate(_tokens(self._config, rows)):
            so_far = self._tokens[place]
            unmeasured = so_far is None or tokens.null_count() > 0
            self._tokens[place] = None if unmeasured else (so_far or 0) + int(tokens.sum())

    def cells(self) -> tuple[str, ...]:
        """Cells of the columns of the card's table after the first, as text.

        Unique images are a share of the conversations, turns the mean of a conversation, tokens of a message; – when
        not measured or without rows.
        """
        counts = [self._rows, *(len(values) for values in self._distinct.values())]
        means = [
            _mean(100 * len(self._distinct["images"]), self._rows, 1),
            _mean(self._turns, self._rows, 2),
            _mean(self._tokens[0], self._turns, 1),
            _mean(self._tokens[1], self._answers, 1),
        ]
        return (*(f"{count:,}" for count in counts), *means, "yes" if self._config == "battle" else "no")


def _mean(total: int | None, count: int, digits: int) -> str:
    return UNKNOWN_CELL if total is None or count == 0 else f"{total / count:,.{digits}f}"


def _tokens(config: str, rows: pl.DataFrame) -> Iterator[pl.Series]:
    """cl100k_base tokens of user messages, then of answers."""
    if config == "battle":
        metadata = rows["conv_metadata"].struct
        sides = [metadata.field(side).struct.field("assistant_tokens") for side in ("a", "b")]
        yield metadata.field("context_tokens")
        yield sides[0] + sides[1]
    else:
        yield from (rows["context_tokens"], rows["assistant_tokens"])


def unmeasured_line(manifest: Manifest) -> str:
    """A line such as `categories=openai: 3 of 120 items`; empty when nothing is missing."""
    return "; ".join(
        f"{name}={counts.provider}: {counts.unmeasured:,} of {counts.items:,} items"
        for name, counts in sorted(manifest.unmeasured.items())
    )
