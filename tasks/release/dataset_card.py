"""Writes the dataset card from the release and `schemas/`, and checks it against both for `curate verify`."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import jinja2
import yaml

from schemas.policy import Policy
from schemas.release import CONFIGS, Manifest
from schemas.row import described_columns, inner_rows
from schemas.run import Funnel
from tasks.release.layout import CARD
from tasks.release.statistics import COLUMNS, COMPARED, PUBLISHED, UNKNOWN
from tasks.runtime.untrusted import markdown_text
from tasks.storage.queries.funnel import reason_texts

_TEMPLATE = Path(__file__).with_suffix(".md")
_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))
"""The Hub's size categories: (row limit, name)."""
_MAY_BE_UNKNOWN = (7, 8)
"""Cells that may be – in the card, because tokens need not have been measured: mean tokens of prompts and answers."""


def dataset_card(
    manifest: Manifest,
    funnel: Funnel,
    statistics: Mapping[str, tuple[str, ...]],
    bench: Mapping[str, Sequence[Mapping[str, Any]]],
) -> str:
    """README.md of a release.

    `statistics`: configuration -> cells of the statistics table. `bench`: rows of bench_funnel, bench_measures and
    bench_agreement.
    """
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True)  # noqa: S701 - Markdown; untrusted text goes through markdown_text
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        front_matter=_front_matter(manifest),
        title="Vision arena conversations",
        embedded=manifest.embedded_providers,
        manifest=manifest,
        funnel=funnel,
        statistics=[*((dataset_name(config), *statistics[config]) for config in COMPARED), *PUBLISHED],
        bench=bench,
        schemas={name: described_columns(row) for name, row in CONFIGS.items()},
        parts={
            row.__name__: described_columns(row) for row in dict.fromkeys(chain(*map(inner_rows, CONFIGS.values())))
        },
        removed=list(_removed(manifest, funnel)),
        agreement=list(_agreement(bench["bench_agreement"])),
        columns=COLUMNS,
        funnel_line=funnel_line(funnel),
        licence=_licence(manifest),
        contact=_contact(manifest),
    )


def _removed(manifest: Manifest, funnel: Funnel) -> Iterator[tuple[str, str, str]]:
    """(fate and reason, number of lines, meaning of the reason)."""
    texts = reason_texts(Policy.model_validate(manifest.policy))
    for fate, counts in (("dropped", funnel.dropped_by), ("rejected", funnel.rejected_by)):
        for reason, lines in counts.items():
            yield f"{fate}: {reason}", f"{lines:,}", markdown_text(texts.get(reason, ""), characters_max=400)


def _agreement(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    """(metric, reference, benchmark draws, random draws); the last two as mean and 95 % interval."""
    named = {(row["reference"], row["metric"], row["sample"]): row for row in rows}
    for reference, metric in dict.fromkeys((row["reference"], row["metric"]) for row in rows):
        both = (named.get((reference, metric, sample)) for sample in ("bench", "random"))
        shown = (f"{row['mean']:.3f} ({row['low']:.3f} to {row['high']:.3f})" if row else "–" for row in both)
        yield (metric, reference, *shown)


def _licence(manifest: Manifest) -> str:
    chosen = manifest.policy.get("licence")
    return f"`{chosen}`" if chosen else "Not chosen: nobody but its maker may use it. The policy names one (`licence`)."


def _contact(manifest: Manifest) -> str:
    return markdown_text(manifest.policy.get("contact") or "") or "the publisher of this dataset"


def size_category(rows: int) -> str:
    """The Hub's size category for a number of rows."""
    return next((name for limit, name in _SIZES if rows < limit), "10M<n<100M")


def _front_matter(manifest: Manifest) -> str:
    total = manifest.counts["chat"] + manifest.counts["battle"]
    about = {
        "pretty_name": "Vision arena conversations",
        "license": manifest.policy.get("licence") or "other",
        "task_categories": ["image-text-to-text", "visual-question-answering"],
        "tags": ["arena", "human-preference", "vision-language"],
        "size_categories": [size_category(total)],
        "configs": data_files(),
    }
    return front_matter(about)


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


def wrong_numbers(folder: Path, manifest: Manifest, statistics: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Problems of the card's numbers: counts and fates against the manifest, statistics against those of the rows."""
    card = (folder / CARD).read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in card.splitlines() if "|" in line]
    shown = {row[0]: row[1:] for row in reversed(cells)}  # when a first cell is repeated, its first row counts
    for config in CONFIGS:
        expected = f"{manifest.counts[config]:,}"
        if shown.get(f"`{config}`", [""])[0] != expected:
            yield f"{CARD}: rows of {config} are not the {expected} that the release has"
    for config, right in statistics.items():
        found = shown.get(dataset_name(config), [])
        unknown = [number for number, each in enumerate(found) if each == UNKNOWN and number in _MAY_BE_UNKNOWN]
        if found != [UNKNOWN if number in unknown else cell for number, cell in enumerate(right)]:
            yield f"{CARD}: statistics of {config} are not those of its rows, {' | '.join(right)}"
    gone = Funnel.model_validate(manifest.funnel)
    reasons = {f"dropped: {reason}": f"{count:,}" for reason, count in gone.dropped_by.items()}
    reasons |= {f"rejected: {reason}": f"{count:,}" for reason, count in gone.rejected_by.items()}
    table = [(row[0], row[1]) for row in cells if row[0].startswith(("dropped: ", "rejected: ")) and len(row) > 1]
    if funnel_line(gone) not in card or sorted(table) != sorted(reasons.items()):
        yield f"{CARD}: where the log lines went is not what the manifest says"


def wrong_sentences(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Problems of the card's sentences that differ from the manifest."""
    card = (folder / CARD).read_text(encoding="utf-8")
    flowing = " ".join(card.split())
    notice = "**Built with embedded stand-ins**"
    stand_ins = [f"{notice} ({', '.join(manifest.embedded_providers)})"] if manifest.embedded_providers else []
    expected = {
        "the version": f" Version {manifest.version} of an arena dataset",
        "the first or last day": f"raw logs of {manifest.first_day} to {manifest.last_day} under",
        "the policy": f"the policy `{manifest.policy['name']}` ({manifest.policy_hash})",
        "what was withheld": f" {manifest.counts['withheld_for_bench']:,} kept conversations are not in `chat`",
    }
    if contact := markdown_text(str(manifest.policy.get("contact") or "")):
        expected["the address for removals"] = f"Write to {contact} with"
    yield from (
        f"{CARD}: {what} is not what the manifest says"
        for what, line in expected.items()
        if " ".join(line.split()) not in flowing
    )
    if flowing.count(notice) != len(stand_ins) or not all(each in flowing for each in stand_ins):
        yield f"{CARD}: which stand-ins it was built with is not what the manifest says"
    if _read_front_matter(card) != (data_files(), manifest.policy.get("licence") or "other"):
        yield f"{CARD}: its front matter does not name the configurations, their files and the licence of the release"


def data_files() -> list[dict[str, Any]]:
    """The `configs` of the front matter; the first configuration is the default."""
    configs: list[dict[str, Any]] = [
        {"config_name": name, "data_files": [{"split": "train", "path": f"{name}/data/train-*.parquet"}]}
        for name in CONFIGS
    ]
    configs[0]["default"] = True
    return configs


def _read_front_matter(card: str) -> tuple[Any, Any]:
    try:
        about, _ = split_card(card)
        return about["configs"], about["license"]
    except (ValueError, KeyError):
        return None, None


def dataset_name(config: str) -> str:
    """Name of a configuration of this release in the statistics table."""
    return f"**this release, {config}**"


def funnel_line(gone: Funnel) -> str:
    """The sentence with the funnel's totals."""
    return f"{gone.lines:,} log lines = {gone.kept:,} kept + {gone.dropped:,} dropped + {gone.rejected:,} rejected."
