"""The old place of names that moved."""

from tasks.storage.queries.bench import *  # noqa: F403
