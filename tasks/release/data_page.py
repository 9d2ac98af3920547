"""DATA.md of a release: every column, what embedded models were measured to find, and the versions of the signals.

In: the manifest. Out: the page, to which the card leads. A further chapter is one of `data_page.md`, from the manifest
alone: `verify` compares the file byte for byte.
"""

from collections.abc import Collection, Sequence
from itertools import chain
from pathlib import Path

from schemas.release import CONFIGS, Manifest
from schemas.row import described_columns, inner_rows
from tasks.release.build import DATA
from tasks.release.dataset_card import configs_with_rows, render_card
from tasks.release.registered import ReleasePart, StatedFile, later_columns

_TEMPLATE = Path(__file__).with_suffix(".md")


def data_page(manifest: Manifest) -> str:
    """The page, in Markdown."""
    configs = configs_with_rows(manifest.counts)
    parts = dict.fromkeys(chain(*(inner_rows(CONFIGS[name]) for name in configs)))
    later = {path for name in configs for path in later_columns(name, manifest.layout)}
    later_fields = {path.partition(".")[2] for path in later}
    return render_card(
        _TEMPLATE,
        manifest=manifest,
        schemas={name: _without(later, described_columns(CONFIGS[name])) for name in configs},
        parts={row.__name__: _without(later_fields, described_columns(row)) for row in parts},
    )


def _without(names: Collection[str], columns: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The columns that have none of the names."""
    return [column for column in columns if column[0] not in names]


DATA_PAGE = ReleasePart(stated=(StatedFile(DATA, data_page, since_layout=11),))
"""The part of every release that describes its columns."""
