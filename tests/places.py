"""Where the repository and the data beside it are."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHARED_DATA = Path(os.environ.get("CURATE_TEST_DATA", ROOT.parent / "shared" / "data"))
"""Real logs, votes and labelled texts; tests that need them are skipped where it does not exist."""
DATA = Path(os.environ.get("CURATE_TEST_DATA", SHARED_DATA))
"""The same, or the folder that CURATE_TEST_DATA names."""


def contents(folder: Path) -> dict[str, bytes]:
    """Path below a folder -> content, of every file."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
