"""The old place of names that moved."""

from tasks.bench.generate.kept_items import *  # noqa: F403
from tasks.bench.written.findings import *  # noqa: F403
