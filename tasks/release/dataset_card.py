"""The dataset card: every number is computed from what is released; every schema table from `schemas/`."""

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
from tasks.lookup.reasons import reason_texts
from tasks.release.card_numbers import data_files, dataset_name, funnel_line
from tasks.release.statistics import COLUMNS, COMPARED, PUBLISHED
from tasks.untrusted import markdown_text

_TEMPLATE = Path(__file__).with_suffix(".md")
_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))
"""The Hub's size categories: fewer rows than the limit have the name."""


def dataset_card(
    manifest: Manifest,
    funnel: Funnel,
    statistics: Mapping[str, tuple[str, ...]],
    bench: Mapping[str, Sequence[Mapping[str, Any]]],
) -> str:
    """README.md of a release.

    `statistics` has the cells of each compared configuration, `bench` rows of bench_funnel, bench_measures and
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
    """Fate and reason, lines, and what the reason means."""
    texts = reason_texts(Policy.model_validate(manifest.policy))
    for fate, counts in (("dropped", funnel.dropped_by), ("rejected", funnel.rejected_by)):
        for reason, lines in counts.items():
            yield f"{fate}: {reason}", f"{lines:,}", markdown_text(texts.get(reason, ""), characters_max=400)


def _agreement(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    """Metric and reference, and what the benchmark's draws and random ones have: the mean, and 95 % of the draws."""
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
    """What the Hub calls a dataset of so many rows."""
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
    return f"---\n{yaml.safe_dump(about, sort_keys=False)}---"
