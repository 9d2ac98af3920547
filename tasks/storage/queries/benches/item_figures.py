"""The old place of names that moved."""

from tasks.bench.written.figures import *  # noqa: F403
