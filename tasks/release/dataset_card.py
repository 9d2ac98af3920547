"""The dataset card: every number is computed from what is released; every schema table from `schemas/`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
import yaml

from schemas.release import CONFIGS, Manifest
from schemas.row import described_columns
from schemas.run import Funnel
from tasks.untrusted import markdown_text

_TEMPLATE = Path(__file__).with_suffix(".md")
LICENCE = "Not yet chosen: the publisher names it before this dataset leaves the building."
_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))
"""The Hub's size categories: fewer rows than the limit have the name."""


def dataset_card(
    manifest: Manifest,
    funnel: Funnel,
    rows: Mapping[str, pl.DataFrame],
    bench: Mapping[str, Sequence[Mapping[str, Any]]],
) -> str:
    """README.md of a release. `bench` has rows of bench_funnel, bench_measures and bench_agreement."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True)  # noqa: S701 - Markdown; untrusted text goes through markdown_text
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        front_matter=_front_matter(manifest),
        title="Vision arena conversations",
        embedded=manifest.embedded_providers,
        manifest=manifest,
        funnel=funnel,
        statistics=_statistics(rows),
        bench=bench,
        schemas={
            name: [(c, markdown_text(t), markdown_text(d)) for c, t, d in described_columns(row)]
            for name, row in CONFIGS.items()
        },
        licence=LICENCE,
    )


def _front_matter(manifest: Manifest) -> str:
    total = manifest.counts["chat"] + manifest.counts["battle"]
    configs: list[dict[str, Any]] = [
        {"config_name": name, "data_files": [{"split": "train", "path": f"{name}/data/train-*.parquet"}]}
        for name in CONFIGS
    ]
    configs[0]["default"] = True
    about = {
        "pretty_name": "Vision arena conversations",
        "license": "other",
        "task_categories": ["image-text-to-text", "visual-question-answering"],
        "tags": ["arena", "human-preference", "vision-language"],
        "size_categories": [next((name for limit, name in _SIZES if total < limit), "10M<n<100M")],
        "configs": configs,
    }
    return f"---\n{yaml.safe_dump(about, sort_keys=False)}---"


def _statistics(rows: Mapping[str, pl.DataFrame]) -> list[tuple[str, str, str]]:
    """Rows of VisionArena's Table 1 that both configurations have."""
    chat, battle = rows["chat"], rows["battle"]
    models = {*battle["model_a"], *battle["model_b"]}
    people = (chat["user_id"].drop_nulls().n_unique(), battle["judge"].drop_nulls().n_unique())
    return [
        ("models", f"{chat['model'].n_unique():,}", f"{len(models):,}"),
        ("languages", _languages(chat), _languages(battle)),
        ("users or judges", f"{people[0]:,}", f"{people[1]:,}"),
        ("distinct pictures", _pictures(chat), _pictures(battle)),
        ("mean turns", _mean(chat), _mean(battle)),
    ]


def _languages(frame: pl.DataFrame) -> str:
    return f"{frame.filter(pl.col('language') != 'unknown')['language'].n_unique():,}"


def _pictures(frame: pl.DataFrame) -> str:
    return f"{frame['image_ids'].explode().drop_nulls().n_unique():,}"


def _mean(frame: pl.DataFrame) -> str:
    return f"{frame['num_turns'].to_numpy().mean():.2f}" if frame.height else "–"
