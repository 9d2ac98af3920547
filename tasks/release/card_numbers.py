"""Whether the dataset card says what the files hold: its rows, its statistics, its funnel and how they are found."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from schemas.release import CONFIGS, Manifest
from schemas.run import Funnel
from tasks.parquet import read_parquet_groups
from tasks.release.layout import CARD
from tasks.release.shards import shards
from tasks.release.statistics import COMPARED, UNKNOWN, Statistics
from tasks.untrusted import markdown_text

_COLUMNS = {
    "chat": ["model", "user_id", "conversation"],
    "battle": ["model_a", "model_b", "judge", "conv_metadata", "conversation_a", "conversation_b"],
}
_MAY_BE_UNKNOWN = (6, 7)
"""Cells that are counted here and need not have been measured: mean tokens of prompts and answers."""
_BOTH = ["language", "num_turns", "images.list.element.path"]


def wrong_numbers(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Numbers of the card that are not those of the shards, or of the manifest where the shards cannot tell."""
    card = (folder / CARD).read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in card.splitlines() if "|" in line]
    shown = {row[0]: row[1:] for row in reversed(cells)}  # of two tables with one name the first counts
    for config in CONFIGS:
        expected = f"{manifest.counts[config]:,}"
        if shown.get(f"`{config}`", [""])[0] != expected:
            yield f"{CARD}: rows of {config} are not the {expected} that the release has"
    for config in COMPARED:
        right = _statistics(folder, config)
        told = shown.get(dataset_name(config), [])
        untold = [number for number, each in enumerate(told) if each == UNKNOWN and number in _MAY_BE_UNKNOWN]
        if told != [UNKNOWN if number in untold else cell for number, cell in enumerate(right)]:
            yield f"{CARD}: statistics of {config} are not those of its rows, {' | '.join(right)}"
    gone = Funnel.model_validate(manifest.funnel)
    reasons = {f"dropped: {reason}": f"{count:,}" for reason, count in gone.dropped_by.items()}
    reasons |= {f"rejected: {reason}": f"{count:,}" for reason, count in gone.rejected_by.items()}
    table = [(row[0], row[1]) for row in cells if row[0].startswith(("dropped: ", "rejected: ")) and len(row) > 1]
    if funnel_line(gone) not in card or sorted(table) != sorted(reasons.items()):
        yield f"{CARD}: where the log lines went is not what the manifest says"


def wrong_sentences(folder: Path, manifest: Manifest) -> Iterator[str]:
    """What the card says of the whole release and the manifest does not, or not so."""
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
    if _front_matter(card) != (data_files(), manifest.policy.get("licence") or "other"):
        yield f"{CARD}: its front matter does not name the configurations, their files and the licence of the release"


def data_files() -> list[dict[str, Any]]:
    """Configurations as the front matter names them, the first by default."""
    configs: list[dict[str, Any]] = [
        {"config_name": name, "data_files": [{"split": "train", "path": f"{name}/data/train-*.parquet"}]}
        for name in CONFIGS
    ]
    configs[0]["default"] = True
    return configs


def _front_matter(card: str) -> tuple[Any, Any]:
    try:
        opening, text, _ = card.split("---\n", 2)
        about = yaml.safe_load(text)
        return (about["configs"], about["license"]) if opening == "" else (None, None)
    except (ValueError, yaml.YAMLError, KeyError, TypeError, RecursionError):
        return None, None


def dataset_name(config: str) -> str:
    """What a configuration of this release is called in the table of statistics."""
    return f"**this release, {config}**"


def funnel_line(gone: Funnel) -> str:
    """The sentence about where the log lines went."""
    return f"{gone.lines:,} log lines = {gone.kept:,} kept + {gone.dropped:,} dropped + {gone.rejected:,} rejected."


def _statistics(folder: Path, config: str) -> tuple[str, ...]:
    found = Statistics(config)
    for shard in shards(folder, config):
        for group in read_parquet_groups(shard, [*_COLUMNS[config], *_BOTH]):
            found.add(group)
    return found.cells()
