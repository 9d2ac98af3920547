"""Whether the dataset card says what the files hold: its rows, its statistics and its funnel."""

from collections.abc import Iterator
from pathlib import Path

from schemas.release import CONFIGS, Manifest
from schemas.run import Funnel
from tasks.release.shards import shards
from tasks.release.statistics import COMPARED, UNKNOWN, Statistics
from tasks.tables import read_parquet_groups

CARD = "README.md"
_COLUMNS = {
    "chat": ["model", "user_id", "conversation"],
    "battle": ["model_a", "model_b", "judge", "conv_metadata", "conversation_a", "conversation_b"],
}
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
        expected_cells = _statistics(folder, config)
        told = shown.get(dataset_name(config), [])
        same = [each in (UNKNOWN, right) for each, right in zip(told, expected_cells, strict=False)]
        if len(told) != len(expected_cells) or not all(same):
            yield f"{CARD}: statistics of {config} are not those of its rows, {' | '.join(expected_cells)}"
    gone = Funnel.model_validate(manifest.funnel)
    reasons = {f"dropped: {reason}": count for reason, count in gone.dropped_by.items()}
    reasons |= {f"rejected: {reason}": count for reason, count in gone.rejected_by.items()}
    if funnel_line(gone) not in card or any(shown.get(name) != [f"{count:,}"] for name, count in reasons.items()):
        yield f"{CARD}: where the log lines went is not what the manifest says"


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
