"""Where the repository, published tables and the data beside it are."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "tests" / "published"
"""Small published tables, whose sources and licences its README names."""
DATA = Path(os.environ.get("CURATE_TEST_DATA", ROOT.parent / "shared" / "data"))
"""Real logs, judgements and labelled texts that are not in the repository."""
LEFT_OUT = "real data is neither in the repository nor beside it; CURATE_TEST_DATA names its folder"
needs_data = pytest.mark.skipif("CURATE_TEST_DATA" not in os.environ and not DATA.is_dir(), reason=LEFT_OUT)
"""Mark of tests that read it. Where it is there or was named, a file that it lacks is a failure."""


def contents(folder: Path) -> dict[str, bytes]:
    """Path below a folder -> content, of every file."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
