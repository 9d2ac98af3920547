"""Writes the dataset card, with the columns of VisionArena's Table 1."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
import yaml

from schemas.policy import Policy
from schemas.release import CONFIGS, Manifest
from schemas.row import described_columns, inner_rows
from schemas.run import Funnel
from tasks.providers.embedded.texts import Cl100k
from tasks.release.card_figures import MODELS, PEOPLE
from tasks.release.checks.failing import unmeasured_line
from tasks.release.registered import ReleasePart
from tasks.runtime.untrusted import markdown_text
from tasks.storage.content_id import Distinct
from tasks.storage.records import reason_texts

_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))
"""The Hub's size categories: (row limit, name)."""
UNKNOWN = "–"
TEMPLATE = Path(__file__).with_suffix(".md")

_ANSWERS = {"chat": ["conversation"], "battle": ["conversation_a", "conversation_b"]}
COMPARED = tuple(PEOPLE)
"""Configurations that have a row in the table."""
_IMAGE_ID = pl.element().struct.field("path").str.head(32)
_IS_ANSWER = (pl.element().struct.field("role") == "assistant").cast(pl.Int64)


def dataset_card(
    manifest: Manifest,
    funnel: Funnel,
    statistics: Mapping[str, tuple[str, ...]],
    bench: Mapping[str, Sequence[Mapping[str, Any]]],
    sections: str = "",
) -> str:
    """README.md of a release.

    `statistics`: configuration -> cells of the statistics table. `bench`: rows of bench_funnel, bench_measures and
    bench_agreement. `sections`: those that only some releases have.
    """
    about = {
        "pretty_name": "Vision arena conversations",
        "license": manifest.policy.get("licence") or "other",
        "task_categories": ["image-text-to-text", "visual-question-answering"],
        "tags": ["arena", "human-preference", "vision-language"],
        "size_categories": [size_category(manifest.counts["chat"] + manifest.counts["battle"])],
        "configs": data_files(manifest.counts),
    }
    texts = reason_texts(Policy.model_validate(manifest.policy))
    schemas = {name: CONFIGS[name] for name in configs_with_rows(manifest.counts)}
    return render_card(
        TEMPLATE,
        front_matter=front_matter(about),
        manifest=manifest,
        funnel=funnel,
        statistics=[(dataset_name(config), *statistics[config]) for config in COMPARED if config in schemas],
        bench=bench,
        sections=sections,
        schemas={name: described_columns(row) for name, row in schemas.items()},
        parts={
            row.__name__: described_columns(row) for row in dict.fromkeys(chain(*map(inner_rows, schemas.values())))
        },
        removed=[
            (f"{outcome}: {reason}", f"{lines:,}", markdown_text(texts.get(reason, ""), characters_max=400))
            for outcome, reason, lines in funnel.reasons()
        ],
        agreement=list(_agreement(bench["bench_agreement"])),
        funnel_line=funnel_line(funnel),
        unmeasured=unmeasured_line(manifest),
        contact=markdown_text(manifest.policy.get("contact") or ""),
    )


def card_sections(release: Path, prompts: int, parts: Sequence[ReleasePart]) -> str:
    """The sections that only some releases have, from the files of the release alone. `prompts`: those of `bench`."""
    return "".join(part.section.text(release, prompts) for part in parts if part.section)


def render_card(template: Path, **words: Any) -> str:
    """A card from a Jinja template. Untrusted text in `words` must have gone through `markdown_text`."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True)  # noqa: S701 - Markdown, not HTML
    return environment.from_string(template.read_text(encoding="utf-8")).render(words)


def _agreement(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    """(metric, reference, benchmark draws, random draws); the last two as mean and 95 % interval."""
    named = {(row["reference"], row["metric"], row["sample"]): row for row in rows}
    for reference, metric in dict.fromkeys((row["reference"], row["metric"]) for row in rows):
        both = (named.get((reference, metric, sample)) for sample in ("bench", "random"))
        shown = (f"{row['mean']:.3f} ({row['low']:.3f} to {row['high']:.3f})" if row else "–" for row in both)
        yield (metric, reference, *shown)


def size_category(rows: int) -> str:
    """The Hub's size category for a number of rows."""
    return next((name for limit, name in _SIZES if rows < limit), "10M<n<100M")


def front_matter(about: Mapping[str, Any]) -> str:
    """Front matter of a card: YAML between `---` lines."""
    return f"---\n{yaml.safe_dump(dict(about), sort_keys=False)}---\n"


def split_card(card: str) -> tuple[dict[str, Any], str]:
    """(front matter, text) of a card. Raises ValueError when it has no valid front matter."""
    opening, front, text = card.split("---\n", 2)
    try:
        about = yaml.safe_load(front)
    except (yaml.YAMLError, RecursionError) as error:
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
    return [each | {"default": True} if place == 0 else each for place, each in enumerate(configs)]


def dataset_name(config: str) -> str:
    """Name of a configuration of this release in the statistics table."""
    return f"**this release, {config}**"


def funnel_line(gone: Funnel) -> str:
    """The sentence with the funnel's totals."""
    return f"{gone.lines:,} log lines = {gone.kept:,} kept + {gone.dropped:,} dropped + {gone.rejected:,} rejected."


class Statistics:
    """One configuration's row of the table, from rows added in parts. Memory: 8 bytes for each distinct id."""

    def __init__(self, config: str) -> None:
        self._config = config
        self._distinct = {name: Distinct() for name in ("models", "users", "languages", "images")}
        self._rows = self._turns = self._answers = 0
        self._tokens: list[int | None] = [0, 0]

    def add(self, rows: pl.DataFrame) -> None:
        """Add rows: gathered ones (with `image_ids`, and for chat token counts) or those of a shard."""
        images = rows["image_ids"] if "image_ids" in rows.columns else rows["images"].list.eval(_IMAGE_ID)
        found = {
            "models": pl.concat([rows[name] for name in MODELS[self._config]]),
            "users": rows[PEOPLE[self._config]],
            "languages": rows["language"].filter(rows["language"] != "unknown"),
            "images": images.explode(),
        }
        for name, values in found.items():
            self._distinct[name].add(values)
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
    return UNKNOWN if total is None or count == 0 else f"{total / count:,.{digits}f}"


def _tokens(config: str, rows: pl.DataFrame) -> Iterator[pl.Series]:
    """cl100k_base tokens of user messages, then of answers; counted here when the rows have no token columns."""
    if config == "battle":
        metadata = rows["conv_metadata"].struct
        sides = [metadata.field(side).struct.field("assistant_tokens") for side in ("a", "b")]
        yield metadata.field("context_tokens")
        yield sides[0] + sides[1]
    elif "context_tokens" in rows.columns:
        yield from (rows["context_tokens"], rows["assistant_tokens"])
    else:
        counter = Cl100k()
        messages = rows["conversation"].explode().drop_nulls().struct
        for role in ("user", "assistant"):
            texts = messages.field("content").filter(messages.field("role") == role)
            yield pl.Series(counter.count_tokens(texts.to_list()), dtype=pl.Int64)
