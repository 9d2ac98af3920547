"""Where the repository and the data beside it are."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHARED_DATA = Path(os.environ.get("CURATE_TEST_DATA", ROOT.parent / "shared" / "data"))
"""Real logs, votes and labelled texts; tests that need them are skipped where it does not exist."""
