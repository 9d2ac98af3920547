"""DATA.md of a release: every column, what embedded models were measured to find, and the versions of the signals.

In: the manifest. Out: the page, to which the card leads. A further chapter is one of `data_page.md`, from the manifest
alone: `verify` compares the file byte for byte.
"""

from itertools import chain
from pathlib import Path

from schemas.release import CONFIGS, Manifest
from schemas.row import described_columns, inner_rows
from tasks.release.build import DATA
from tasks.release.dataset_card import configs_with_rows, render_card
from tasks.release.registered import ReleasePart, StatedFile

_TEMPLATE = Path(__file__).with_suffix(".md")


def data_page(manifest: Manifest) -> str:
    """The page, in Markdown."""
    rows = [CONFIGS[name] for name in configs_with_rows(manifest.counts)]
    parts = dict.fromkeys(chain(*map(inner_rows, rows)))
    return render_card(
        _TEMPLATE,
        manifest=manifest,
        schemas={name: described_columns(CONFIGS[name]) for name in configs_with_rows(manifest.counts)},
        parts={row.__name__: described_columns(row) for row in parts},
    )


DATA_PAGE = ReleasePart(stated=(StatedFile(DATA, data_page, since_layout=11),))
"""The part of every release that describes its columns."""
