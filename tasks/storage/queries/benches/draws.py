"""The old place of names that moved."""

from tasks.bench.draw import *  # noqa: F403
